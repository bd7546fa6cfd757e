#!/bin/sh
# Makes this machine a node of a Deckhand hub. The hub serves this script; the console
# ("Enrol a node") and `deckhand node token` show the command that runs it:
#
#   curl -fsSL https://hub.example.com:7800/install/node |
#     DECKHAND_HUB_URL=https://hub.example.com:7800 DECKHAND_JOIN_TOKEN=dhj_... \
#     sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN sh
#
# It installs containerd where it is missing and the system has apt, then deckhand-node
# in /usr/local/bin (DECKHAND_BIN_DIR names another folder), and starts its service. Run
# again, it replaces the program; commands in jails go on. Where the package of
# deckhand-node is installed, it uses the package's program and unit.
set -eu

fail() {
  echo "error: $*" >&2
  exit 1
}

# A function, so that nothing runs of a script that was cut off.
main() {
  [ "$(id -u)" -eq 0 ] || fail "this machine's services are installed by root: copy the whole command from the console, with sudo"
  [ "$(uname -s)" = Linux ] || fail "a node runs Linux, and this is $(uname -s)"
  url=${DECKHAND_HUB_URL:-}
  url=${url%/}
  [ -n "$url" ] || fail "DECKHAND_HUB_URL is empty: copy the whole command from the console"
  [ -n "${DECKHAND_JOIN_TOKEN:-}" ] || [ -e /var/lib/deckhand-node/identity/node.json ] ||
    fail "DECKHAND_JOIN_TOKEN is empty: make one with deckhand node token"
  packaged=${DECKHAND_PACKAGE_DIR:-/usr/bin}/deckhand-node
  if [ -x "$packaged" ]; then
    echo "Using $packaged, of the package deckhand-node: apt or dnf upgrade it"
    start "$packaged"
    return
  fi
  case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no deckhand-node for $(uname -m)" ;;
  esac
  sum=
  case $arch in
#DIGESTS#
  esac
  [ -n "$sum" ] || fail "this hub has no deckhand-node for linux/$arch: put deckhand-node-linux-$arch into the folder of its setting node-programs, or install the package of deckhand-node"

  packages=
  command -v containerd >/dev/null || packages="$packages containerd runc"
  command -v mkfs.ext4 >/dev/null || packages="$packages e2fsprogs"
  if [ -n "$packages" ]; then
    command -v apt-get >/dev/null || fail "install these first:$packages"
    echo "Installing$packages"
    # shellcheck disable=SC2086 # a list
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null ||
      fail "apt-get cannot install these:$packages (after apt-get update, try again)"
  fi

  new=$(mktemp)
  trap 'rm -f "$new"' EXIT
  echo "Downloading deckhand-node from $url"
  curl -fsSL --retry 3 -o "$new" "$url/install/deckhand-node-linux-$arch" || fail "the download failed: is $url the hub's address?"
  echo "$sum  $new" | sha256sum -c >/dev/null 2>&1 || fail "what was downloaded is damaged: try again"
  bin=${DECKHAND_BIN_DIR:-/usr/local/bin}
  [ -d "$bin" ] || install -d "$bin" # it would change the mode of one that there is
  # deckhand-node refuses to run as a service where others can replace it: say so before anything
  # is replaced.
  folder=$(cd "$bin" && pwd -P)
  while :; do
    case $(stat -c '%u %g %A' "$folder") in
    "0 "*t) ;; # sticky: nobody replaces what belongs to root
    "0 "*" d"???????w?) fail "everybody may write to $folder, and so replace deckhand-node: chmod o-w $folder" ;;
    "0 0 "*) ;;
    "0 "*" d"????w????) fail "a group may write to $folder, and so replace deckhand-node: chmod g-w $folder" ;;
    "0 "*) ;;
    *) fail "$folder does not belong to root, and its owner could replace deckhand-node: choose another folder with DECKHAND_BIN_DIR" ;;
    esac
    [ "$folder" != / ] || break
    folder=$(dirname "$folder")
  done
  install -m 0755 "$new" "$bin/deckhand-node"
  echo "Installed $("$bin/deckhand-node" --version) as $bin/deckhand-node"
  start "$bin/deckhand-node"
}

start() { # start PROGRAM: configures and starts its service
  if [ -d /run/systemd/system ]; then
    "$1" install --hub-url "$url" --start
  else
    "$1" install --hub-url "$url"
    echo "This machine does not run systemd: have its service manager run $1 --config /etc/deckhand/node.yaml with DECKHAND_JOIN_TOKEN in its environment."
  fi
}

main
