#!/bin/sh
# Fetches the peers that `toolgate-bench rooms` and `echo` are measured beside into `target/peers`. What cannot be had is said and
# left out; the benchmark then says that it skipped it.
#
# - bwrap: the distribution's package, if it is missing and this is root. srt needs it too, and socat.
# - srt: the command line of `@anthropic-ai/sandbox-runtime`.
# - codex: the native program inside `@openai/codex`, without the JavaScript that starts it.
# - mcp-proxy: a gateway in Rust, built from the registry without what it does beside passing calls on.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
peers="${CARGO_TARGET_DIR:-$here/target}/peers"
mkdir -p "$peers" || exit 1

missing() {
    echo "NOT THERE: $1: $2" >&2
}

for package in bubblewrap:bwrap socat:socat; do
    program=${package#*:}
    if command -v "$program" >/dev/null; then
        continue
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get install --yes --quiet "${package%:*}" >&2 || missing "$program" "apt-get does not install it"
    else
        missing "$program" "install the package ${package%:*}"
    fi
done

cargo install mcp-proxy --version 0.6.0 --locked --no-default-features --root "$peers/mcp-proxy" >&2 ||
    missing mcp-proxy "cargo does not install it"

if ! command -v npm >/dev/null; then
    missing "srt and codex" "there is no npm"
    exit 0
fi
for package in @anthropic-ai/sandbox-runtime @openai/codex; do
    npm install --prefix "$peers" --no-audit --no-fund --loglevel=error "$package" >&2 ||
        missing "$package" "npm does not install it"
done

srt="$peers/node_modules/.bin/srt"
if [ -x "$srt" ]; then ln -sfn "$srt" "$peers/srt"; else missing srt "its package has no command"; fi

codex=$(find "$peers/node_modules/@openai" -type f -name codex -path '*/vendor/*' -perm -u+x 2>/dev/null | head -n 1)
if [ -n "$codex" ]; then ln -sfn "$codex" "$peers/codex"; else missing codex "its package has no native program"; fi
ls -l "$peers/srt" "$peers/codex" 2>/dev/null || true
