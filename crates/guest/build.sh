#!/bin/bash
# build.sh [--out FOLDER]   Clean Debian 12 (amd64) machine -> FOLDER/<digest>.wasm and FOLDER/current.rs (default crates/engine/engine).
# Idempotent; needs no root, writes only under $TOOLS (default $HOME/.cache/dormouse-engine-toolchain) and the folder.
# Needs on PATH: apt-get, dpkg-deb, sha256sum, patch, tar with xz, node with npm, and cargo with a host linker for the bake tool.
# The guest's own toolchain (rustc/cargo 1.96.0, std source, clang/lld 22.1.8) comes from bookworm + bookworm-security,
# unpacked privately with dpkg-deb -x and pinned by sha256; crates by Cargo.lock (--locked), npm packages by
# modules/package-lock.json (npm ci); Node's own JavaScript by the sha256 of Debian's source package.
# If a pinned .deb has been superseded on the mirror (exit status 75), put the old .deb in $DEBS (a private mirror) and re-run.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
TOOLS=${TOOLS:-$HOME/.cache/dormouse-engine-toolchain}; DEBS=${DEBS:-$TOOLS/debs}; OUT=$HERE/../engine/engine
[ "${1:-}" = --out ] && OUT=$2
mkdir -p "$OUT"; OUT=$(cd "$OUT" && pwd)
ROOT=$TOOLS/root; SRCDIR=$TOOLS/src; TARGET=$TOOLS/target
mkdir -p "$DEBS" "$ROOT"
# Two checkouts share these folders: one build at a time.
exec 9>"$TOOLS/.lock"; flock 9
PINS='
rustc-web            1.96.0+dfsg1-1~deb12u2  8fefe1d6377fe4082f5a9d2a47e095e2d20319eaab9754bd2f0275155c9adf90
cargo-web            1.96.0+dfsg1-1~deb12u2  daa5189c56b7e0895f9c89335aae3fc909272f5df332c101c80405695014b149
libstd-rust-web-1.96 1.96.0+dfsg1-1~deb12u2  3755f30434ae29574c91b0beb86632bee401607b0ac35c3e52810f9a53fae0d1
libstd-rust-web-dev  1.96.0+dfsg1-1~deb12u2  e38dbeaaad673fc63fb47c5140cf34da271ac71c3ecafc828b762c2fb01fe77a
rust-web-src         1.96.0+dfsg1-1~deb12u2  9de8597c464d0a9283672973ed7e50092b49a92b95861429043fe8b57468a208
clang-22             1:22.1.8-1~deb12u1      b6ffc4ffae2bf3d0757bab0623701060b30f5bb59e7ba4123d66b56fbb91362a
libclang-common-22-dev 1:22.1.8-1~deb12u1    833d7559bfbe169d7927dfe151cae48bf352da5202e36034a206688ae33f9031
libclang-cpp22       1:22.1.8-1~deb12u1      662a8497190dd6cebaee2ac9421ed9d91cb1199eeabd154eafc4b5c1ac01d4b3
libllvm22            1:22.1.8-1~deb12u1      729ec3e943d320515c2bbdc96acfffd7ce34861e62bd5c42726bf586d644dfe2
lld-22               1:22.1.8-1~deb12u1      13103b3fb3195bfeade9835d3906a4cc91002010f9013d98aa1fc55b841d07b4
llvm-22              1:22.1.8-1~deb12u1      fcde579693b3f1cf1da596694c1add8a961ab1e1bd22744d4bff165d4f865add
libz3-4              4.8.12-3.1              6221ca25ad5abcfbe1965801029d85a88b4775320384b4b716de8fab7a4d2f7a
libedit2             3.1-20221030-2          1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6
libbsd0              0.11.7-2                bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b
libxml2              2.9.14+dfsg-1.3~deb12u6 4460e39dda10a815881374217cde08474747cfa018358cd8612c14b390eff53b
libgit2-1.5          1.5.1+ds-1+deb12u2      0ff5b31dc6a86baabb60584f5cdf801c3e5e9a92ec13f4099e1b3295309b9e0a
libssh2-1            1.10.0-3+deb12u1        fff72a194e493f88e100a2567e22472bb4ab828d429c2956965c6f2f134f1b3a
libhttp-parser2.9    2.9.4-5                 98045b047b8f3ccfdd7930983797df3e316112e1cd4d161fc793260e31183b59
libmbedtls14         2.28.3-1                621ddfb85c668a86d755fae7bb0f31f00d83e4456c8171f9da7445a54b04da9c
libmbedx509-1        2.28.3-1                3377b6bedec2882b9fefeb0ef960ad4dc372939854d76adf761ba70e71d35c3b
libmbedcrypto7       2.28.3-1                af3295f80abf7e6ba2cba419134e29bde04192bf3614622ee53ce49de8d02abe
'
# --- 1. toolchain -----------------------------------------------------------
STAMP=$TOOLS/.toolchain-$(echo "$PINS" | sha256sum | cut -c1-12)
if [ ! -e "$STAMP" ]; then
  cd "$DEBS"
  while read -r p v s; do [ -n "$p" ] || continue
    f=$(ls "${p}"_*.deb 2>/dev/null | while read -r x; do echo "$s  $x" | sha256sum -c --status && echo "$x" && break; done || true)
    if [ -z "$f" ]; then
      apt-get download "$p=$v" >/dev/null 2>&1 || { echo "cannot download $p=$v (apt-get update? superseded?)" >&2; exit 75; }
      f=$(ls -t "${p}"_*.deb | head -1)
      echo "$s  $f" | sha256sum -c --status || { echo "sha256 mismatch: $f" >&2; exit 1; }
    fi
    dpkg-deb -x "$f" "$ROOT"
  done <<<"$PINS"
  cd - >/dev/null; touch "$STAMP"
fi
# --- 2. the bake tool, with the project's own toolchain -------------------------
# A folder for each state of its sources: by their times alone cargo would take another checkout's newer build for this one's.
BAKE=$TOOLS/bake-$(cat "$HERE/bake/Cargo.lock" "$HERE"/bake/src/*.rs | sha256sum | cut -c1-12)
(cd "$HERE/bake" && cargo build --quiet --release --locked --target-dir "$BAKE")
BAKE=$BAKE/release/bake
# --- 3. Node's own JavaScript, of Debian's source package, some of which sessions run as it is -----------------
NODE=nodejs-18.20.4; NODE_SHA=6ce58062c71eae37d9c5ac31eeaeff9c2d48561d21c2849179d056c9c1bd9ebc
if [ ! -e "$TOOLS/$NODE/.unpacked" ]; then
  # The mirror that this machine has: where it has any package, with the path of this one's source.
  MIRROR=$(cd "$(mktemp -d)" && apt-get download --print-uris libmbedtls14 | sed -n "s|^'\(.*\)/pool/.*|\1|p" | head -1)
  F=$DEBS/nodejs_18.20.4+dfsg.orig.tar.xz
  echo "$NODE_SHA  $F" | sha256sum -c --status 2>/dev/null || node -e 'fetch(process.argv[1]).then(async (it) => { if (!it.ok) process.exit(75); require("fs").writeFileSync(process.argv[2], Buffer.from(await it.arrayBuffer())); })' \
    "$MIRROR/pool/main/n/nodejs/nodejs_18.20.4+dfsg.orig.tar.xz" "$F" || { echo "cannot download the source of nodejs 18.20.4" >&2; exit 75; }
  echo "$NODE_SHA  $F" | sha256sum -c --status || { echo "sha256 mismatch: $F" >&2; exit 1; }
  rm -rf "$TOOLS/$NODE"; mkdir -p "$TOOLS/$NODE"
  tar -xJf "$F" -C "$TOOLS/$NODE" --strip-components=1 --wildcards '*/lib/*' '*/LICENSE'; touch "$TOOLS/$NODE/.unpacked"
fi
# --- 4. the modules of a session, bundled from their packages ----------------------
rm -rf "$TOOLS/modules"; mkdir -p "$TOOLS/modules"; (cd "$HERE/modules" && cp -r package.json package-lock.json .npmrc bundle.mjs intl-data.mjs free node web npm "$TOOLS/modules/")
(cd "$TOOLS/modules" && npm ci --no-progress --loglevel=error && node bundle.mjs "$TOOLS/modules.bin" "$TOOLS/modules/THIRD_PARTY.md" "$TOOLS/$NODE")
if [ "$OUT" = "$(cd "$HERE/../engine/engine" && pwd)" ]; then cp "$TOOLS/modules/THIRD_PARTY.md" "$HERE/modules/"
else cmp "$TOOLS/modules/THIRD_PARTY.md" "$HERE/modules/THIRD_PARTY.md" || { echo "modules/THIRD_PARTY.md is not what the packages say" >&2; exit 1; }; fi
# --- 5. environment ---------------------------------------------------------
unset RUSTC_WRAPPER CARGO_ENCODED_RUSTFLAGS RUSTFLAGS CFLAGS CC AR CARGO_BUILD_TARGET CARGO_TARGET_DIR RUSTUP_TOOLCHAIN
L=$ROOT/usr/lib/llvm-22/bin
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH=0 CARGO_HOME=$TOOLS/cargo-home CARGO_INCREMENTAL=0
export LD_LIBRARY_PATH=$ROOT/usr/lib/x86_64-linux-gnu:$ROOT/usr/lib/llvm-22/lib
export RUSTC=$ROOT/usr/bin/rustc RUSTC_BOOTSTRAP=1
export CC_wasm32_unknown_unknown=$L/clang AR_wasm32_unknown_unknown=$L/llvm-ar
export CFLAGS_wasm32_unknown_unknown="-ffile-prefix-map=$TOOLS=/build"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$L/wasm-ld
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=--export=__stack_pointer --remap-path-prefix=$CARGO_HOME/registry/src=/crates --remap-path-prefix=$ROOT/usr/lib/rustlib/src/rust=/rust --remap-path-prefix=$SRCDIR=/engine --remap-path-prefix=$TOOLS=/build"
# --- 6. build (from a private copy, so no config from the tree above leaks in)
rm -rf "$SRCDIR"; mkdir -p "$SRCDIR"; cp -r "$HERE/Cargo.toml" "$HERE/Cargo.lock" "$HERE/src" "$SRCDIR/"
[ "${CLEAN:-1}" = 1 ] && rm -rf "$TARGET"
cd "$SRCDIR"
# QuickJS as published, unpacked anew, whose interpreter counts straight-line code, too; Atomics, contexts of jobs and messages as people know them;
# and a collector that leaves the base image alone.
rm -rf "$CARGO_HOME"/registry/src/*/rquickjs-sys-*
"$ROOT/usr/bin/cargo" fetch --locked
patch --quiet -p1 -d "$CARGO_HOME"/registry/src/*/rquickjs-sys-*/quickjs <"$HERE/polls.patch"
patch --quiet -p1 -d "$CARGO_HOME"/registry/src/*/rquickjs-sys-*/quickjs <"$HERE/language.patch"
patch --quiet -p1 -d "$CARGO_HOME"/registry/src/*/rquickjs-sys-*/quickjs <"$HERE/collector.patch"
"$ROOT/usr/bin/cargo" build -Zbuild-std=std,panic_abort --release --locked --target wasm32-unknown-unknown --target-dir "$TARGET"
# --- 7. compile the modules, run init once and bake the memory it leaves into the module, whose loops poll ------------
env -u LD_LIBRARY_PATH "$BAKE" "$TARGET/wasm32-unknown-unknown/release/engine.wasm" "$TOOLS/modules.bin" "$TOOLS/baked.wasm"
DIGEST=$(sha256sum "$TOOLS/baked.wasm" | cut -c1-16)
# The engine before goes, unless sessions may sleep on it: kept.rs names those.
OLD=$(sed -n 's/.*"\(.*\)\.wasm".*/\1/p' "$OUT/current.rs" 2>/dev/null || true)
[ -z "$OLD" ] || grep -qs "$OLD" "$OUT/kept.rs" || rm -f "$OUT/$OLD.wasm"
cp "$TOOLS/baked.wasm" "$OUT/$DIGEST.wasm"
echo "include_bytes!(\"$DIGEST.wasm\")" >"$OUT/current.rs"
ls -l "$OUT/$DIGEST.wasm"
