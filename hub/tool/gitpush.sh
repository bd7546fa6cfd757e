# What git_push runs in a jail, after lines that set mode, folder, remote, ref, force, and with
# an approval new, old and url. Nothing that the repository configures may run or change what is
# shown: it is the agent's own. The first lines of the output are one fact each.
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
g config --get-regexp '^url\..*\.(push)?insteadof$' >/dev/null 2>&1 && refuse rewritten

if [ -z "${new:-}" ]; then
  new=$(g rev-parse --verify --quiet "$ref^{commit}" 2>/dev/null) || refuse no-branch
  url=$(g config --get-all "remote.$remote.pushurl" 2>/dev/null) || url=$(g config --get-all "remote.$remote.url" 2>/dev/null) || refuse no-remote
  case $url in *'
'*) refuse several-urls ;; esac
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
  if [ -s "$(g rev-parse --git-path info/attributes)" ]; then echo 'attributes yes'; fi
  [ -n "$base" ] || base=$(g hash-object -t tree /dev/null)
  echo
  printf %s "$known" | g log --ignore-missing --stdin --max-count=200 --no-show-signature --no-mailmap --no-notes --no-decorate --no-color --no-patch \
    --format='%H %an <%ae> %s' "$new" 2>&1
  echo
  g diff --no-ext-diff --no-textconv --no-color --no-relative --stat=200 "$base" "$new" 2>&1
  echo
  g diff --no-ext-diff --no-textconv --no-color --no-relative --submodule=short --src-prefix=a/ --dst-prefix=b/ "$base" "$new" 2>&1
  exit 0
fi

lease=$old
if [ "$lease" = - ]; then lease=; fi
printf 'pushing %s\n' "$new"
g push --porcelain --no-verify --no-signed --no-follow-tags --recurse-submodules=no "--force-with-lease=$ref:$lease" -- "$url" "$new:$ref" 2>&1
