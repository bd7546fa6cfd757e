# What git_push runs in a jail, after lines that set mode, folder, remote, ref, force, and with
# an approval new, old and url. The repository is the agent's own: only the URL of the remote is
# taken from its configuration. The branch is fetched into a repository of this script's, which
# computes the hash of each object, and everything else is done there, so that neither settings
# nor grafts nor changed objects have a part in what is shown and pushed. The first lines of the
# output are one fact each.
set -u
refuse() { printf 'refused %s\n' "$*"; exit 3; }
command -v git >/dev/null 2>&1 || refuse no-git
cd -- "$folder" 2>/dev/null || refuse no-folder
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0 \
  GIT_TERMINAL_PROMPT=0 GIT_PAGER=cat GIT_ALLOW_PROTOCOL=https LC_ALL=C
unset GIT_DIR GIT_WORK_TREE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE GIT_EXTERNAL_DIFF GIT_DIFF_OPTS GIT_ASKPASS SSH_ASKPASS GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT
g() {
  git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.pager=cat -c core.askPass= -c core.attributesFile=/dev/null \
    -c core.commitGraph=false -c core.quotePath=true -c credential.helper= -c diff.external= -c diff.noprefix=false -c diff.mnemonicPrefix=false \
    -c protocol.version=0 -c push.pushOption= -c push.gpgSign=false -c http.followRedirects=false -c gc.auto=0 -c maintenance.auto=false "$@"
}
GIT_DIR=$(g rev-parse --absolute-git-dir 2>/dev/null) || refuse no-repository
# Without a work tree and an index, files of attributes change nothing of a diff.
export GIT_DIR GIT_IMPLICIT_WORK_TREE=0 GIT_INDEX_FILE=/nonexistent/index
cd /
own=$(mktemp -d 2>/dev/null) || refuse no-space
trap 'rm -rf "$own"' EXIT
# fetch has the branch in the script's own repository, and works there from then on.
fetch() {
  format=$(g rev-parse --show-object-format 2>/dev/null) || format=sha1
  source=$GIT_DIR
  GIT_DIR=$own/repository g init --quiet --bare --template= --object-format="$format" "$own/repository" >/dev/null 2>&1 || refuse no-space
  GIT_DIR=$own/repository
  said=$(GIT_ALLOW_PROTOCOL=file g -c transfer.fsckObjects=false -c protocol.version=2 -c core.commitGraph=false fetch --quiet --no-tags --no-write-fetch-head --update-shallow \
    "$source" "+$ref:refs/heads/fetched" 2>&1) || refuse unreadable "$(printf %s "$said" | head -c 2000)"
  bring "$new" # which the branch may have left behind
  g cat-file -e "$new^{commit}" 2>/dev/null || refuse moved
}
# bring fetches a commit, if the agent's repository has it.
bring() {
  g cat-file -e "$1^{commit}" 2>/dev/null || GIT_ALLOW_PROTOCOL=file g -c protocol.version=2 fetch --quiet --no-tags --no-write-fetch-head --update-shallow "$source" "$1" >/dev/null 2>&1
}
# part passes on the first bytes: neither many commits nor many files keep the diff from being
# shown.
part() {
  shown=$(head -c "$1"; cat >/dev/null)
  printf '%s\n' "$shown"
  [ "${#shown}" -lt "$(($1 - 300))" ] || echo '[... the rest is not shown]'
}
g config --get-regexp '^url\..*\.(push)?insteadof$' >/dev/null 2>&1 && refuse rewritten

# The proxy knows a call of git_push by a secret, in the first line of the input. Only the push
# itself has it.
secret=
if [ "$mode" = push ] && IFS= read -r line; then
  case $line in 'deckhand-proxy-secret '*) secret=${line#* } ;; esac
fi

if [ -z "${new:-}" ]; then
  new=$(g rev-parse --verify --quiet "$ref^{commit}" 2>/dev/null) || refuse no-branch
  url=$(g config --get-all "remote.$remote.pushurl" 2>/dev/null) || url=$(g config --get-all "remote.$remote.url" 2>/dev/null) || refuse no-remote
  case $url in *'
'*) refuse several-urls ;; esac
  fetch
  case $url in https://*@*) case ${url#https://} in */*@*) ;; *) refuse password ;; esac ;; https://*) ;; *) refuse not-https "$url" ;; esac
  heads=$(g ls-remote --heads -- "$url" 2>/dev/null) || refuse unreachable "$(g ls-remote --heads -- "$url" 2>&1 >/dev/null | head -c 2000)"
  old=-
  # What the remote has, as git takes it for "not these".
  known=
  while read -r id name; do
    [ -n "$id" ] || continue
    known="$known^$id
"
    if [ "$name" = "$ref" ]; then old=$id; fi
  done <<END
$heads
END
  descends=new
  if [ "$old" != - ]; then
    bring "$old"
    if ! g cat-file -e "$old^{commit}" 2>/dev/null; then descends=unknown
    elif g merge-base --is-ancestor "$old" "$new"; then descends=yes
    else descends=no; fi
  fi
  printf 'new %s\nold %s\ndescends %s\nurl %s\n' "$new" "$old" "$descends" "$url"
  if [ "$new" = "$old" ]; then refuse same; fi
  case $descends in
    unknown) refuse behind ;;
    no) [ "$force" = yes ] || refuse diverged ;;
  esac
else
  fetch
fi

if [ "$mode" = inspect ]; then
  if [ "$old" != - ]; then
    known="^$old
"
    base=$old
    printf 'removed %s\n' "$(g rev-list --count "$old" "^$new" 2>/dev/null)"
  else
    base=$(printf %s "$known" | g rev-list --ignore-missing --boundary --stdin "$new" 2>/dev/null | grep '^-' | head -n 1)
    base=${base#-}
  fi
  printf 'commits %s\n' "$(printf %s "$known" | g rev-list --ignore-missing --count --stdin "$new" 2>/dev/null)"
  printf 'base %s\n' "${base:--}"
  [ -n "$base" ] || base=$(g hash-object -t tree /dev/null)
  echo
  printf %s "$known" | g log --ignore-missing --stdin --max-count=200 --no-show-signature --no-mailmap --no-notes --no-decorate --no-color --no-patch \
    --format='%H %an <%ae> %s' "$new" 2>&1 | cut -b1-300 | part 16384
  echo
  g diff --no-ext-diff --no-textconv --no-color --no-relative --ignore-submodules=none --stat=200 --stat-count=200 "$base" "$new" 2>&1 | part 12288
  echo
  g diff --no-ext-diff --no-textconv --no-color --no-relative --ignore-submodules=none --submodule=short --src-prefix=a/ --dst-prefix=b/ "$base" "$new" 2>&1
  exit 0
fi

lease=$old
if [ "$lease" = - ]; then lease=
elif bring "$old"; [ "$force" != yes ]; then
  g merge-base --is-ancestor "$old" "$new" 2>/dev/null || refuse diverged
fi
printf 'pushing %s\n' "$new"
if [ -n "$secret" ] && [ -n "${https_proxy:-}" ]; then
  https_proxy=${https_proxy%%:x@*}:$secret@${https_proxy#*@}
fi
g push --porcelain --no-verify --no-signed --no-follow-tags --recurse-submodules=no "--force-with-lease=$ref:$lease" -- "$url" "$new:$ref" 2>&1
