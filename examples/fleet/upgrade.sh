#!/usr/bin/env bash
# Upgrades a fleet of an earlier edition to this one, process by process and under load, and
# ends with a verdict: gameday with -before. The earlier edition is a program, or a commit of
# this repository, which is built without Temporal's server in seconds to minutes. Further
# arguments are gameday's, such as -seed 2 for another order, or -keep for the logs.
#
#   examples/fleet/upgrade.sh bin/harpagon HARPAGON|COMMIT [ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/../.."
harpagon=$1 before=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$before" ]; then
  mkdir "$work/source"
  git archive "$before" | tar -x -C "$work/source"
  (cd "$work/source" && go build -trimpath -tags noserver -o "$work/before" ./cmd/harpagon)
  before=$work/before
  set -- -temporal "$harpagon" "$@"
fi
go build -tags noserver -o "$work/gameday" ./examples/fleet/gameday
"$work/gameday" -harpagon "$harpagon" -before "$before" "$@"
