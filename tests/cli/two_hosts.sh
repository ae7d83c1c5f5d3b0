#!/bin/sh
# Two hosts on one machine: namespaces of the network with names of their own, joined by a link, in which mpirun starts
# its daemons. It takes a superuser, ip, tc and unshare.
#
#   two_hosts.sh up N RATE           makes them; N: a number from 1 to 250 that nobody else uses; RATE: as 1gbit
#   two_hosts.sh run N EACH COMMAND  starts the command EACH times on each of them
#   two_hosts.sh down N              removes them
#   two_hosts.sh ADDRESS COMMAND     what ssh would do; mpirun calls it so
set -e
case $1 in
up)
    n=$2
    ip netns add "snug$n-1"
    ip netns add "snug$n-2"
    ip link add "snug$n-1" netns "snug$n-1" type veth peer name "snug$n-2" netns "snug$n-2"
    for i in 1 2; do
        host=snug$n-$i
        ip -n "$host" addr add "10.77.$n.$i/24" dev "$host"
        ip -n "$host" link set lo up
        ip -n "$host" link set "$host" up
        ip netns exec "$host" tc qdisc add dev "$host" root tbf rate "$3" burst 32kb latency 20ms
        ip netns exec "$host" unshare --uts hostname "$host"
    done
    ;;
down)
    for i in 1 2; do ip netns del "snug$2-$i" 2>/dev/null || true; done
    ;;
run)
    n=$2 each=$3
    shift 3
    here=$(readlink -f "$0")
    exec "$here" "10.77.$n.1" mpirun --oversubscribe --bind-to none -H "10.77.$n.1:$each,10.77.$n.2:$each" \
        -n $((2 * each)) --mca plm_rsh_agent "$here" --mca pml ob1 --mca btl self,vader,tcp \
        --mca btl_tcp_if_include "10.77.$n.0/24" --mca oob_tcp_if_include "10.77.$n.0/24" -wdir "$PWD" "$@"
    ;;
*.*.*.*)
    host=snug$(echo "$1" | sed 's/.*[.]\([0-9]*\)[.]\([0-9]*\)$/\1-\2/')
    shift
    exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
