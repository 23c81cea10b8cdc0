#!/usr/bin/env bash
# tests/slurm/node.sh start|crash NODE: a virtual node of the cluster around it (cluster.sh).
#
# "crash" is SIGKILL to all its processes at once; the controller takes half a minute to notice, or is told:
#   node.sh crash n2; scontrol update nodename=n2 state=down reason=crash
#   node.sh start n2; scontrol update nodename=n2 state=resume
set -euo pipefail
D=${SLURMLAB_DIR:?node.sh works inside cluster.sh only}
node=${2:?usage: node.sh start|crash NODE}
pidfile=$D/pid/$node

case $1 in
  start)
    # As after a reboot: what a crashed step leaves behind would make the step of the same number fail to launch.
    rm -rf "${D:?}/spool/$node" "$D/tmp/$node"
    mkdir "$D/spool/$node" "$D/tmp/$node"
    setsid unshare --mount --pid --uts --ipc --fork --kill-child --mount-proc "$D/etc/node-init.sh" "$D" "$node" \
      </dev/null >>"$D/log/node.$node" 2>&1 &
    echo $! >"$pidfile"
    ;;
  crash)
    # unshare's death takes the node's process 1 along, and that everything in the node.
    kill -KILL "$(cat "$pidfile")"
    rm -f "$pidfile"
    ;;
  *)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
