/* A device apart and the ranks of a run, of which neither knows the other: what moves between ranks is put on
 * a lane of the device (comm_lane in comm/comm.h). With one rank, or on a device that is not apart, these are
 * what the device does alone. */
#pragma once

#include "comm/comm.h"
#include "device/device.h"

/* Joins the ranks that were started as `l` says, for `d`, which is apart: comm_join. Free with joined_close,
 * also after failure, and behind comm_close. */
status joined_open(const device *d, const launch *l);
void joined_close(void);

void joined_end(const device *d);            /* device.end, where no rank is waited for for ever */
status joined_failed(const device *d);       /* device.failed, after which this rank says nothing to others */
device_parts joined_beside(const device *d); /* device.beside, with what words between ranks pass through */
