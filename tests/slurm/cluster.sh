#!/usr/bin/env bash
# Runs a command on a throw-away SLURM cluster of virtual nodes on this one machine, without systemd or cgroups.
#
#   tests/slurm/cluster.sh bash                             a shell from which sbatch, srun, squeue ... work
#   tests/slurm/cluster.sh sbatch -W jobs/sweep.sbatch SPEC.yaml
#   tests/slurm/cluster.sh --check                          only says whether this machine can do it
#
# SLURMLAB_NODES (4) nodes n1, n2 ... of SLURMLAB_CPUS (2) CPUs each, which all share the machine's cores: for behaviour,
# not for scaling. node.sh crashes one and brings it back. Exit status: the command's; 77 and a reason where this machine
# cannot do it (it takes root, the packages slurm-wlm and munge, and the right to make namespaces).
#
# Cluster, command and all files of theirs live in namespaces of their own: processes, mounts, network, hostname. When the
# command ends, or this script is killed in whatever way, the kernel ends every process in them, and nothing is left (of
# SIGKILL an empty folder).
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nodes=${SLURMLAB_NODES:-4} cpus=${SLURMLAB_CPUS:-2}
tools=(slurmctld slurmd sbatch srun scontrol squeue sinfo scancel munged mpirun unshare setpriv ip)
# Another cluster around this one is none of its business.
unset "${!SLURM_@}" "${!SBATCH_@}"

skip() {
  printf '%s: skipped: %s\n' "${0##*/}" "$*" >&2
  exit 77
}
fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# ---- outside ----

check() {
  local tool
  [ $# -gt 0 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
  [ "$(uname -s)" = Linux ] || skip "this is not Linux"
  [ "$(id -u)" = 0 ] || skip "only root can start slurmd and make namespaces, and this is user $(id -un)"
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || skip "no $tool here (Debian: apt-get install slurm-wlm munge openmpi-bin iproute2)"
  done
  [ "$(cat /proc/self/setgroups 2>/dev/null)" != deny ] || skip "this is root in a user namespace only"
  unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc ip link set lo up 2>/dev/null ||
    skip "no right to make namespaces here (a container needs CAP_SYS_ADMIN: docker run --privileged)"
}

outside() {
  local inside status=0
  check "$@"
  [ "$1" != --check ] || exit 0
  folder=$(mktemp -d /tmp/slurmlab.XXXXXX) # short: paths of sockets, which go below it, have room for 107 bytes
  # Its death takes process 1 of the namespaces along, and that all others; <&0: it would read from /dev/null otherwise.
  setpriv --pdeathsig KILL unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc "$0" --inside "$folder" "$@" <&0 &
  inside=$!
  # shellcheck disable=SC2064 # the process as it is now
  trap "kill -KILL $inside 2>/dev/null || true" TERM INT HUP
  trap 'rmdir "$folder"' EXIT
  wait "$inside" || status=$?
  wait "$inside" 2>/dev/null || true
  exit "$status"
}

# ---- inside: process 1 of the namespaces ----

configure() {
  mkdir -p "$D"/{etc,log,state,spool,pid,tmp/login}
  (umask 077; head -c 1024 /dev/urandom >"$D/etc/munge.key")
  cat >"$D/etc/slurm.conf" <<CONF
ClusterName=lab
SlurmctldHost=login(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge.sock,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
TmpFS=$D/tmp/%n
SlurmctldPidFile=$D/pid/slurmctld
SlurmdPidFile=$D/pid/slurmd.%n
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd.%n.log
SlurmctldPort=17000
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1024
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=1
MpiDefault=pmix
JobRequeue=1
KillWait=5
SlurmdTimeout=10
SlurmctldTimeout=30
MinJobAge=3600
NodeName=n[1-$nodes] NodeAddr=127.0.0.1 Port=[17001-$((17000 + nodes))] CPUs=$cpus RealMemory=8192 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
PartitionName=short Nodes=ALL MaxTime=00:30:00 OverSubscribe=NO State=UP
PartitionName=spare Nodes=ALL MaxTime=INFINITE OverSubscribe=NO State=UP PreemptMode=REQUEUE
PartitionName=spare_grace Nodes=ALL MaxTime=INFINITE OverSubscribe=NO State=UP PreemptMode=REQUEUE GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=INFINITE OverSubscribe=NO State=UP PriorityTier=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CONF
  # With the default fence, or "tree", a rank can be let out of MPI_Init too early, and its peer then dies of SIGSEGV in
  # MPI_Init (up to 13 % of runs on 4 virtual nodes of a busy machine); with "ring" none did in 860 runs.
  echo "PMIxCollFence=ring" >"$D/etc/mpi.conf"
  printf 'passwd: files\ngroup: files\nhosts: files\n' >"$D/etc/nsswitch.conf"
  # Only its own name may be a node's local one: Open MPI would take the others for itself.
  printf '127.0.0.1 localhost login\n' >"$D/etc/hosts"
  cat >"$D/etc/node-init.sh" <<'INIT'
#!/usr/bin/env bash
# Process 1 of a virtual node: its own hostname, /dev/shm and name lookup. SIGKILL to it is the crash of the node.
D=$1 node=$2
echo "$node" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
printf '127.0.0.1 localhost %s\n' "$node" >"$D/etc/hosts.$node"
mount --bind "$D/etc/hosts.$node" /etc/hosts
slurmd -D -N "$node" &
daemon=$!
trap 'kill -TERM $daemon' TERM
while kill -0 $daemon 2>/dev/null; do wait $daemon; done
INIT
  chmod 755 "$D/etc/node-init.sh"
}

start() {
  local node
  mount --bind "$D/etc/nsswitch.conf" /etc/nsswitch.conf
  mount --bind "$D/etc/hosts" /etc/hosts
  echo login >/proc/sys/kernel/hostname
  ip link set lo up
  ip address add 192.0.2.1/32 dev lo # names are not looked up where there are no addresses but 127.0.0.1
  munged --key-file="$D/etc/munge.key" --socket="$D/munge.sock" --pid-file="$D/pid/munged" \
    --log-file="$D/log/munged.log" --seed-file="$D/munge.seed" </dev/null >>"$D/log/munged.out" 2>&1 ||
    { cat "$D"/log/munged.* >&2; fail "munged did not start"; }
  slurmctld </dev/null >>"$D/log/slurmctld.out" 2>&1 ||
    { cat "$D/log/slurmctld.out" >&2; fail "slurmctld did not start"; }
  until [ -s "$D/pid/slurmctld" ] || [ "$SECONDS" -gt 60 ]; do
    sleep 0.05
  done
  for ((node = 1; node <= nodes; node++)); do
    "$here/node.sh" start "n$node"
  done
}

# Until every node is idle, or two minutes have passed.
await() {
  local end=$((SECONDS + 120))
  while [ "$(sinfo -h -N -p debug -o %T 2>/dev/null | grep -cx idle)" != "$nodes" ]; do
    if [ "$SECONDS" -ge "$end" ] || ! kill -0 "$(cat "$D/pid/slurmctld" 2>/dev/null)" 2>/dev/null; then
      sinfo -N -l >&2 || true
      tail -n 20 "$D"/log/*.log >&2
      fail "the controller ended, or not all nodes became idle in two minutes"
    fi
    sleep 0.1
  done
}

inside() {
  D=$1
  shift
  mount -t tmpfs -o mode=755 tmpfs "$D"
  configure
  export SLURM_CONF=$D/etc/slurm.conf SLURMLAB_DIR=$D TMPDIR=$D/tmp/login
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
  export OMPI_MCA_mpi_yield_when_idle=1 # ranks that srun starts do not know that others share their cores
  start
  await
  local status=0
  "$@" || status=$?
  exit "$status"
}

if [ "${1:-}" = --inside ]; then
  shift
  inside "$@"
else
  outside "$@"
fi
