#!/usr/bin/env bash
# Makes and ends hosts of this machine for a control role with --provision (see hosts.hcl): each is
# a worker process, in a session of its own, that goes on when the control role ends.
#
#   worker.sh create [FLAGS OF HARPAGON WORKER...] NAME
#   worker.sh delete NAME
#
#   HARPAGON=harpagon  the program
#   WORKERS=FOLDER     where the workers' numbers and logs are
set -eu
verb=$1 name=${!#}
shift
set -- "${@:1:$#-1}"
workers=${WORKERS:-${XDG_RUNTIME_DIR:-/tmp}/harpagon-workers-$(id -u)}
mkdir -p -m 700 "$workers"
file=$workers/$name.pid log=$workers/$name.log

# A process that was given the number since is not the worker.
lives() {
  pid=$(cat "$file" 2>/dev/null) || return 1
  case "$(ps -o stat=,args= -p "$pid")" in Z*) return 1 ;; *"worker --name $name"*) ;; *) return 1 ;; esac
}

case $verb in
create)
  # The number is on file before the process becomes a worker.
  setsid sh -c 'echo $$ >"$0" && exec "$@"' "$file" "${HARPAGON:-harpagon}" worker --name "$name" "$@" </dev/null >"$log" 2>&1 &
  sleep 1
  lives || { tail -n 1 "$log" >&2; exit 1; }
  ;;
delete)
  lives && kill "$pid"
  for _ in $(seq 600); do
    lives || break
    sleep 0.1
  done
  lives && kill -KILL "-$pid"
  rm -f "$file" "$log"
  ;;
*)
  echo "worker.sh: write create or delete, not $verb" >&2
  exit 1
  ;;
esac
