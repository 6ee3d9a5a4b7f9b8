# The processes of a fleet on this machine, for run.sh to start, kill and start again:
#
#   postgres                                  where Temporal keeps everything durable
#   temporal-1 temporal-2                     one cluster
#   control-1 control-2                       run the workflows
#   dispatcher-1 dispatcher-2                 decide
#   worker-1 worker-2                         compute
#   gateway-1 gateway-2                       take requests
#
# Between all of them is TLS: each shows a certificate of its own and asks the others for
# one of the same CA, which exists for this run only.
#
# Needs work (a folder), harpagon (the program) and, from Debian's package postgresql or
# the like, initdb and postgres. POSTGRES=no does with one Temporal server on a file, and
# TLS=no, beside that, without TLS. GRPC=yes has the load sent over gRPC, not HTTP.

roles="control-1 control-2 dispatcher-1 dispatcher-2 worker-1 worker-2 gateway-1 gateway-2"
ports=${PORTS:-17200} # the first of some 150 that are taken on loopback
declare -A pid

port() { echo $((ports + $1)); }
at() { echo "127.0.0.1:$(port "$1")"; }

gateways=$(at 110),$(at 111)
TLS=${TLS:-yes}
export HARPAGON_TOKEN= TEMPORAL_ADDRESS
secured=
[ "$TLS" = no ] || { secured=s && export TEMPORAL_TLS=true; }
[ "${GRPC:-no}" = no ] || gateways=grpc$secured://$(at 112),grpc$secured://$(at 113)

# certificate NAME: makes the certificate and the key of a process.
certificate() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
    -keyout "$work/tls/$1.key" -out "$work/tls/$1.csr" 2>/dev/null &&
    openssl x509 -req -in "$work/tls/$1.csr" -CA "$work/tls/ca.pem" -CAkey "$work/tls/ca.key" -CAcreateserial -days 2 \
      -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1
extendedKeyUsage=serverAuth,clientAuth") -out "$work/tls/$1.pem" 2>/dev/null
}

# tls NAME: the flags with which a process shows its certificate.
tls() { [ "$TLS" = no ] || echo "--tls-cert $work/tls/$1.pem --tls-key $work/tls/$1.key --tls-ca $work/tls/ca.pem"; }

# prepare: makes the CA, the certificates and the empty database.
prepare() {
  mkdir -p "$work/tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=fleet" \
    -keyout "$work/tls/ca.key" -out "$work/tls/ca.pem" 2>/dev/null || return 1
  for name in postgres temporal-1 temporal-2 client $roles; do certificate $name || return 1; done
  if [ "${POSTGRES:-yes}" = no ]; then
    TEMPORAL_ADDRESS=$(at 20)
    return
  fi
  TEMPORAL_ADDRESS=$(at 20),$(at 30)
  bin=$(ls -d "${POSTGRES_BIN:-}" /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
  [ -x "$bin/initdb" ] || bin=$(dirname "$(command -v initdb)") || {
    echo "there is no PostgreSQL here; install it (apt install postgresql), name its folder of programs in POSTGRES_BIN, or set POSTGRES=no"
    return 1
  }
  mkdir "$work/postgres"
  cp "$work/tls/postgres.pem" "$work/tls/postgres.key" "$work/tls/ca.pem" "$work/postgres"
  as_postgres() { "$@"; }
  if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root; the package has made a user
    chmod 711 "$work"
    chown -R postgres "$work/postgres"
    as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
  fi
  chmod 600 "$work/postgres/postgres.key"
  (cd "$work/postgres" && as_postgres "$bin/initdb" -D "$work/postgres/data" -U harpagon --auth=trust --no-sync >"$work/initdb.log" 2>&1) || {
    cat "$work/initdb.log"
    return 1
  }
  cat >"$work/postgres/data/pg_hba.conf" <<END
hostssl all harpagon 127.0.0.1/32 cert map=fleet
END
  echo 'fleet /^temporal-[12]$ harpagon' >"$work/postgres/data/pg_ident.conf"
  [ "$(id -u)" != 0 ] || chown postgres "$work/postgres/data/pg_hba.conf" "$work/postgres/data/pg_ident.conf"
}

start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >>"$work/$name.log" 2>&1 &
  pid[$name]=$!
}

# begin NAME: starts a process.
begin() {
  local name=$1 number=${1##*-}
  case $name in
    postgres)
      start postgres as_postgres "$bin/postgres" -D "$work/postgres/data" -k "$work/postgres" -c listen_addresses=127.0.0.1 -p "$(port 0)" \
        -c ssl=on -c ssl_cert_file="$work/postgres/postgres.pem" -c ssl_key_file="$work/postgres/postgres.key" \
        -c ssl_ca_file="$work/postgres/ca.pem" -c max_connections=400 -c shared_buffers=128MB
      ;;
    temporal-*)
      if [ "${POSTGRES:-yes}" = no ]; then
        start "$name" "$harpagon" temporal --addr "$(at 20)" --ui "" --state "$work/temporal" $(tls "$name")
        return
      fi
      local proof="sslcert=$work/tls/$name.pem&sslkey=$work/tls/$name.key&sslrootcert=$work/tls/ca.pem"
      start "$name" "$harpagon" temporal --addr "$(at $((10 + 10 * number)))" --ui "" --state "$work/$name" $(tls "$name") \
        --postgres "postgres://harpagon@$(at 0)/temporal?sslmode=verify-full&$proof" --shards "${SHARDS:-16}"
      ;;
    control-*) start "$name" "$node" control $(tls "$name") ;;
    dispatcher-*) start "$name" "$node" dispatcher --name "$name" --listen "$(at $((120 + 10 * number)))" $(tls "$name") ;;
    gateway-*)
      start "$name" "$node" gateway --name "$name" --http "$(at $((109 + number)))" --grpc "$(at $((111 + number)))" --attach "$(at $((119 + number)))" \
        --dispatcher fleet $(tls "$name")
      ;;
    worker-*) start "$name" "$node" worker --name "$name" --cores 2 $(tls "$name") ;;
  esac
}

# end NAME: kills a process, and for PostgreSQL the children that serve its connections.
end() {
  if [ "$1" = postgres ]; then
    as_postgres "$bin/pg_ctl" -D "$work/postgres/data" -m immediate stop >/dev/null 2>&1
  else
    kill -9 "${pid[$1]}" 2>/dev/null
  fi
  wait "${pid[$1]}" 2>/dev/null
}

# end_all: ends whatever runs, and removes what it has written unless KEEP is set.
end_all() {
  for name in "${!pid[@]}"; do end "$name"; done
  [ -n "${KEEP:-}" ] && echo "logs are in $work" || rm -rf "$work"
}

# ask PATH NUMBER: the status that a gateway answers with.
ask() {
  local credentials="--cacert $work/tls/ca.pem --cert $work/tls/client.pem --key $work/tls/client.key"
  [ "$TLS" != no ] || credentials=
  curl -s -o /dev/null -w '%{http_code}' --max-time 5 $credentials \
    "http$secured://$(at $((109 + $2)))$1"
}

# answers PATH NUMBER: waits until the gateway says that it is ready.
answers() {
  for _ in $(seq 480); do
    [ "$(ask "$1" "$2")" = 200 ] && return 0
    sleep 0.5
  done
  echo "gateway-$2 does not answer at $1"
  return 1
}

# says NAME WORD: waits until the process writes the word, which it does when it is ready.
says() {
  for _ in $(seq 480); do
    grep -q "$2" "$work/$1.log" 2>/dev/null && return 0
    sleep 0.5
  done
  echo "$1 is not ready:"
  tail -n 5 "$work/$1.log"
  return 1
}

# begin_all: starts the fleet, each process when those that it needs answer.
begin_all() {
  if [ "${POSTGRES:-yes}" = no ]; then
    begin temporal-1
  else
    begin postgres
    says postgres "ready to accept" || return 1
    begin temporal-1
    begin temporal-2
    says temporal-2 Temporal || return 1
  fi
  says temporal-1 Temporal || return 1
  begin control-1
  begin control-2
  says control-1 runs && says control-2 runs || return 1
  for name in $roles; do
    case $name in control-*) ;; *) begin $name ;; esac
  done
  answers /v2/health/ready 1 && answers /v2/health/ready 2
}
