#!/bin/bash
# setup.sh: prints the folder with `test/parallel` (Node's own tests) and `test/fixtures/wpt` (Node's copy of web-platform-tests), which lies
# in $DORMOUSE_SUITES (default ~/.cache/dormouse-suites). They are of the source of Node that the engine's build takes, too: Debian's package,
# by its sha256. Needs node, tar with xz and, where the engine was never built, apt-get. Exits with 75 when Debian's mirror no longer has it.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd); KEPT=${DORMOUSE_SUITES:-$HOME/.cache/dormouse-suites}
# One truth about the version.
eval "$(grep -E '^NODE=nodejs-[0-9.]+; NODE_SHA=[0-9a-f]{64}$' "$HERE/../../crates/guest/build.sh")"
OUT=$KEPT/$NODE; FILE=nodejs_${NODE#nodejs-}+dfsg.orig.tar.xz
mkdir -p "$KEPT"
exec 9>"$KEPT/.node.lock"; flock 9
fits() { echo "$NODE_SHA  $1" | sha256sum -c --status 2>/dev/null; }
if [ ! -e "$OUT/.unpacked" ]; then
  # The engine's build keeps it.
  TAR=${DEBS:-${TOOLS:-$HOME/.cache/dormouse-engine-toolchain}/debs}/$FILE
  if ! fits "$TAR"; then
    TAR=$KEPT/$FILE
    MIRROR=$(cd "$(mktemp -d)" && apt-get download --print-uris libmbedtls14 | sed -n "s|^'\(.*\)/pool/.*|\1|p" | head -1)
    fits "$TAR" || node -e 'fetch(process.argv[1]).then(async (it) => { if (!it.ok) process.exit(75); require("fs").writeFileSync(process.argv[2], Buffer.from(await it.arrayBuffer())); })' \
      "$MIRROR/pool/main/n/nodejs/$FILE" "$TAR" || { echo "cannot download the source of $NODE" >&2; exit 75; }
    fits "$TAR" || { echo "sha256 mismatch: $TAR" >&2; exit 1; }
  fi
  rm -rf "$OUT"; mkdir -p "$OUT"
  tar -xJf "$TAR" -C "$OUT" --strip-components=1 --wildcards '*/test/parallel/*' '*/test/fixtures/*' '*/test/common/*' '*/LICENSE'
  touch "$OUT/.unpacked"
fi
echo "$OUT"
