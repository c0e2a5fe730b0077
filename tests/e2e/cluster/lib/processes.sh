# Processes of the node. Each has a log and a file with its id and the time it started at, so that no other is ever stopped.

# name, command...
start() {
    setsid "${@:2}" >"log/$1.log" 2>&1 </dev/null 9>&- &
    echo "$! $(started_at $!)" >"$1.pid"
}

started_at() { cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null; }

# name: asks it to end, and ends it if it does not within 5 s
stop() {
    local pid at
    read -r pid at 2>/dev/null <"$1.pid" || return 0
    for _ in {1..50}; do
        [[ $(started_at "$pid") == "$at" ]] || return 0
        kill "$pid" 2>/dev/null || true
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
}

# seconds, name, command...: until the command succeeds
wait_for() {
    local deadline=$((SECONDS + $1)) name=$2
    until "${@:3}" >/dev/null 2>&1; do
        if ((SECONDS > deadline)); then
            tail -n 20 "log/$name.log" >&2
            fail "$name is not ready after $1 s; its log is $RUN/log/$name.log"
        fi
        sleep 0.2
    done
}
