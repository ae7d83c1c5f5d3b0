/* Written by tools/goldens_fp8.py. */
#pragma once

#include <stdint.h>

static const uint64_t golden_codes[] = { 0x07f653ba7e391500u, 0x8821dd0b86242ffcu };   /* e4m3, e5m2 */
static const uint64_t golden_numbers[] = { 0x3e519a5e9b2c7600u, 0x87e724e83ecc7600u }; /* e4m3, e5m2 */
static const double golden_y[] = { 543062.867,  -89.9516768, 86.9104233, 31.2912798, -93.2179165,
                                   -148.938272, -61.8826599, 118.872819, 90.9350491 };
static const double golden_dx[] = { 1150128.7,   886.379673, 82.0122681, 54.0892067, -149.778259,
                                    -68.4125977, 769.743469, 11.5065308, -123.386955 };
static const double golden_dw[] = { 860359.222,  73.6957893,  -4.39007568, 13.0697021, 9.00518799,
                                    -23.0911407, -12.0359192, 2.54223633,  -33.9093781 };
