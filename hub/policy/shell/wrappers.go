package shell

import (
	"maps"
	"slices"
	"strings"
)

// wrapper describes how a program that runs another one reads its own words. This table
// covers every program that takes a command as its words.
type wrapper struct {
	// takes are its short options that take a value, in the same word or the next.
	takes string
	// glued are its short options whose value can only be in the same word.
	glued string
	// long are its long options that take a value, which may be in the next word.
	long []string
	// flags are its long options that take none. Of an option in neither list both
	// readings are taken.
	flags []string
	// skip is how many words of its own come before the command.
	skip int
	// script are options whose value is a script for a shell.
	script []string
	// text reports that the words after its own are joined to a script.
	text bool
	// each reports that every word after its own is a separate script.
	each bool
	// dir are the options that name the folder in which it runs the command.
	dir []string
	// dash reports that the command comes after "--", if there is one.
	dash bool
	// lookup are options with which it runs nothing.
	lookup []string
	// program lists the options that name the program, whose arguments the words then
	// are.
	program []string
	// pairs are options that take two values.
	pairs []string
	// sure has unknown options read in one way.
	sure bool
}

func list(s string) []string { return strings.Fields(s) }

// container are the options of programs that run a command in a container.
var container = wrapper{
	takes: "uewvplhamcn",
	long: list(`--user --env --workdir --volume --publish --label --hostname --attach --memory --cpus --name --network --net --entrypoint --mount --env-file --add-host
		--cap-add --cap-drop --device --dns --gpus --ip --ipc --pid --platform --restart --runtime --security-opt --shm-size --stop-signal --sysctl --tmpfs --ulimit --userns --uts
		--volumes-from --log-driver --log-opt --pull --expose --group-add --cidfile --container --namespace --context --kubeconfig --image --overrides --target --index --file --project-name --profile
		--health-cmd --link --cgroupns --memory-swap --cpu-shares --cpuset-cpus --detach-keys --label-file --isolation --pids-limit`),
	flags: list(`--rm --interactive --tty --detach --privileged --init --read-only --publish-all --quiet --stdin --no-deps --no-TTY --service-ports --build --quiet-pull --remove-orphans --use-aliases --it`),
	skip:  1, dash: true, dir: list("-w --workdir"), program: list("--entrypoint"),
}

// packaged are the options of programs that run a command of a project's packages.
var packaged = wrapper{
	takes: "pCw", long: list("--package --python --with --with-requirements --extra --group --directory --project --env-file --index-url --prefix --workspace --dir --filter --from"),
	flags:  list("--yes --no --quiet --offline --frozen --locked --isolated --no-sync --active --all-extras --no-install --ignore-existing --silent --prefer-offline --no-project --verbose --dev --no-dev --all-groups"),
	script: list("-c --call --shell-mode"), dir: list("-C --directory --project --prefix --dir"),
}

// wrappers are the programs that run the words that follow as a command. A key is a
// program, or a program with its subcommand.
var wrappers = map[string]*wrapper{
	"sudo": {
		takes: "ughpCTrtRDU", long: list("--user --group --host --prompt --chdir --chroot --close-from --command-timeout --other-user --role --type"), dir: list("-D --chdir"),
		flags: list("--askpass --background --preserve-env --edit --set-home --login --shell --non-interactive --preserve-groups --stdin --reset-timestamp --bell --list --validate --remove-timestamp"),
	},
	"doas": {takes: "uCa"},
	"env": {
		takes: "uCSa", long: list("--unset --chdir --split-string --argv0"), dir: list("-C --chdir"),
		flags: list("--ignore-environment --null --debug --block-signal --default-signal --ignore-signal --list-signal-handling"),
	},
	"nohup": {}, "setsid": {flags: list("--ctty --fork --wait")}, "linux64": {}, "linux32": {}, "catchsegv": {}, "unbuffer": {}, "fakeroot": {takes: "lsib"}, "eatmydata": {},
	"nice":    {takes: "n", long: list("--adjustment")},
	"ionice":  {takes: "cnpPu", long: list("--class --classdata --pid"), flags: list("--ignore")},
	"chrt":    {takes: "TPD", long: list("--sched-runtime --sched-period --sched-deadline"), flags: list("--batch --deadline --fifo --idle --other --rr --reset-on-fork --all-tasks"), skip: 1},
	"taskset": {skip: 1, flags: list("--cpu-list --all-tasks")},
	"timeout": {takes: "ks", long: list("--kill-after --signal"), flags: list("--foreground --preserve-status --verbose"), skip: 1},
	"time":    {takes: "fo", long: list("--format --output"), flags: list("--append --portability --verbose --quiet")},
	"stdbuf":  {takes: "ioe", long: list("--input --output --error")},
	"setarch": {skip: 1}, "command": {lookup: list("-v -V")}, "builtin": {}, "exec": {takes: "a"}, "coproc": {}, "chronic": {}, "noglob": {},
	"firejail": {takes: "c"}, "proot": {takes: "rbmwqvki", long: list("--rootfs --bind --mount --pwd --cwd --qemu --kernel-release"), dir: list("-w --pwd --cwd")},
	"bwrap": {pairs: list("--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --setenv --file --bind-data --ro-bind-data --symlink --chmod --overlay --bind-fd --ro-bind-fd"), long: list(`--args --argv0 --userns --userns2 --pidns --uid --gid --hostname --chdir --unsetenv --lock-file --sync-fd --remount-ro --exec-label --file-label --proc --dev --tmpfs --mqueue --dir
		--seccomp --add-seccomp-fd --block-fd --userns-block-fd --info-fd --json-status-fd --cap-add --cap-drop --perms --size --overlay-src --tmp-overlay --ro-overlay`), dir: list("--chdir"),
		flags: list(`--unshare-all --share-net --unshare-user --unshare-user-try --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup --die-with-parent --as-pid-1 --new-session --clearenv --disable-userns`)},
	"strace": {takes: "eopsSuaEbIOPX"}, "ltrace": {takes: "eopsunalADFwx"}, "valgrind": {long: list("--log-file --suppressions")},
	"chroot":      {long: list("--userspec --groups"), flags: list("--skip-chdir"), skip: 1},
	"unshare":     {takes: "SGRw", long: list("--setuid --setgid --root --wd --propagation --map-user --map-group --map-users --map-groups --setgroups"), dir: list("-w --wd"), flags: list("--mount --uts --ipc --net --pid --user --cgroup --time --fork --map-root-user --mount-proc --keep-caps --map-auto --map-current-user --kill-child")},
	"nsenter":     {takes: "tSGrw", glued: "muinpCUT", long: list("--target --setuid --setgid"), flags: list("--all --mount --uts --ipc --net --pid --user --cgroup --time --root --wd --no-fork --preserve-credentials --follow-context")},
	"systemd-run": {takes: "pEMHud", long: list("--unit --property --description --slice --uid --gid --nice --working-directory --setenv --machine --host --on-active --on-boot --on-calendar --timer-property --service-type"), dir: list("--working-directory"), flags: list("--user --system --scope --wait --pty --pipe --collect --quiet --no-block --remain-after-exit --send-sighup --same-dir --shell --no-ask-password")},
	"setpriv":     {long: list("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile"), flags: list("--clear-groups --keep-groups --init-groups --no-new-privs --reset-env --nnp")},
	"prlimit":     {takes: "p", long: list("--pid")}, "cgexec": {takes: "g"}, "numactl": {takes: "NmCpi", long: list("--cpunodebind --membind --physcpubind --interleave --preferred")},
	"busybox": {}, "toybox": {}, "torsocks": {takes: "uapP"}, "torify": {}, "proxychains": {takes: "f"}, "proxychains4": {takes: "f"}, "tsocks": {}, "dbus-run-session": {}, "dbus-launch": {},
	"entr": {}, "xvfb-run": {takes: "enfpsw", long: list("--server-args --server-num --error-file --auth-file --xauth-protocol --wait"), flags: list("--auto-servernum --auto-display --listen-tcp")},
	"runcon": {takes: "urtl", skip: 1}, "pkexec": {long: list("--user"), flags: list("--disable-internal-agent --keep-cwd")}, "gosu": {skip: 1}, "su-exec": {skip: 1}, "setuidgid": {skip: 1},
	"chpst": {takes: "ueUnlmdopfcrtb/"}, "softlimit": {takes: "acdflmoprst"}, "s6-setuidgid": {skip: 1}, "caffeinate": {takes: "tw"}, "ccache": {}, "sccache": {}, "distcc": {}, "scan-build": {takes: "o"},
	"perf stat": {takes: "eorpCG", long: list("--event --output --repeat")}, "perf record": {takes: "eocFpCG", long: list("--event --output --freq --call-graph")}, "perf trace": {takes: "eop"},
	"ip netns exec": {skip: 1}, "ip vrf exec": {skip: 1}, "snap run": {}, "flatpak run": {long: list("--command")}, "flatpak-spawn": {}, "machinectl shell": {skip: 1}, "systemd-nspawn": {takes: "DMuiE", long: list("--directory --machine --user --bind --bind-ro --image --setenv")},
	"systemd-inhibit": {long: list("--what --who --why --mode")}, "run-one": {}, "daemonize": {takes: "acuepol"}, "daemon": {}, "start-stop-daemon": {takes: "xapnugckKrdNPIR", long: list("--exec --startas --pidfile --name --user --group --chuid --signal --chdir --retry --nicelevel --umask"), flags: list("--start --stop --background --make-pidfile --quiet --oknodo --test --verbose --remove-pidfile --no-close --status"), program: list("-x --exec -a --startas"), dir: list("-d --chdir")},
	"pipenv run": {}, "poetry run": &packaged, "pdm run": &packaged, "hatch run": {text: true}, "rye run": &packaged, "uv run": &packaged, "uv tool run": &packaged, "uvx": &packaged, "pipx run": &packaged, "pixi run": &packaged,
	"conda run": {takes: "np", long: list("--name --prefix --cwd"), flags: list("--no-capture-output --live-stream"), dir: list("--cwd")}, "mamba run": {takes: "np", long: list("--name --prefix")}, "micromamba run": {takes: "np", long: list("--name --prefix")},
	"npx": &packaged, "bunx": &packaged, "pnpx": &packaged, "npm exec": &packaged, "npm x": &packaged, "pnpm exec": &packaged, "pnpm dlx": &packaged, "yarn exec": &packaged, "yarn dlx": &packaged, "bun x": &packaged,
	"bundle exec": {}, "rbenv exec": {}, "pyenv exec": {}, "asdf exec": {}, "nodenv exec": {}, "mise exec": {dash: true, script: list("-c --command")}, "mise x": {dash: true, script: list("-c --command")}, "direnv exec": {skip: 1}, "nvm exec": {skip: 1}, "nvm run": {skip: 1}, "fnm exec": {long: list("--using")}, "volta run": {long: list("--node --npm --yarn")},
	"rvm do": {}, "rustup run": {skip: 1}, "corepack": {}, "dotenv": {takes: "ef", dash: true}, "dotenvx run": {takes: "f", dash: true}, "dotenv run": {}, "cross-env": {}, "cross-env-shell": {text: true}, "op run": {dash: true}, "doppler run": {dash: true, script: list("--command")}, "infisical run": {dash: true, script: list("--command")},
	"aws-vault exec": {skip: 1, dash: true}, "chamber exec": {skip: 1, dash: true}, "sops exec-env": {skip: 1, text: true}, "sops exec-file": {skip: 1, text: true}, "envdir": {skip: 1}, "foreman run": {}, "heroku run": {takes: "a", dash: true, text: true}, "fly ssh console": {script: list("-C --command"), takes: "Ca"}, "vagrant ssh": {script: list("-c --command"), takes: "c"},
	"gcloud compute ssh": {script: list("--command"), skip: 1}, "multipass exec": {skip: 1, dash: true}, "lxc exec": {skip: 1, dash: true}, "incus exec": {skip: 1, dash: true}, "lxc-attach": {takes: "n", dash: true}, "distrobox enter": {takes: "n", dash: true}, "toolbox run": {takes: "c"}, "wsl": {takes: "du", long: list("--distribution --user --cd")},
	"nix run": {skip: 1, dash: true}, "nix develop": {takes: "c", script: list("-c --command"), skip: 1}, "nix shell": {takes: "c", script: list("-c --command"), skip: 99}, "nix-shell": {takes: "pAIE", script: list("--run --command"), skip: 99}, "devbox run": {}, "guix shell": {dash: true, skip: 99},
	"docker run": &container, "docker exec": &container, "docker container run": &container, "docker container exec": &container, "docker compose run": &container, "docker compose exec": &container, "docker-compose run": &container, "docker-compose exec": &container,
	"podman run": &container, "podman exec": &container, "podman-compose run": &container, "podman-compose exec": &container, "nerdctl run": &container, "nerdctl exec": &container, "kubectl exec": &container, "kubectl run": &container, "oc exec": &container, "oc run": &container, "kubectl debug": &container, "crictl exec": &container, "ctr run": &container, "buildah run": &container, "apptainer exec": &container, "singularity exec": &container,
	"watch":   {takes: "nq", long: list("--interval --equexit"), flags: list("--beep --color --differences --errexit --chgexit --precise --no-title --exec --no-wrap"), text: true},
	"flock":   {takes: "wEc", long: list("--timeout --wait --conflict-exit-code"), flags: list("--shared --exclusive --unlock --nonblock --nb --close --no-fork --verbose"), script: list("-c --command"), skip: 1},
	"su":      {takes: "cgGsw", long: list("--group --supp-group --shell --whitelist-environment"), script: list("-c --command --session-command"), skip: 99},
	"runuser": {takes: "cugGsw", long: list("--user --group --shell"), script: list("-c --command --session-command")},
	"sg":      {script: list("-c"), takes: "c", skip: 99}, "script": {takes: "cIOBTEmo", script: list("-c --command"), skip: 99},
	"parallel-ssh": {text: true, takes: "hHlpotOxiA"}, "pssh": {text: true, takes: "hHlpotOxiA"}, "pdsh": {takes: "wxlgfut", text: true}, "sshpass": {takes: "pfdP"}, "autossh": {}, "mosh": {skip: 1, dash: true},
	"concurrently": {takes: "nc", long: list("--names --prefix --prefix-colors --max-processes"), each: true}, "hyperfine": {takes: "wrmMpcsnNiuLPDS", long: list("--warmup --runs --min-runs --max-runs --export-json --export-markdown --command-name --parameter-list --parameter-scan --shell"), script: list("-p --prepare -c --cleanup -s --setup"), each: true},
	"nodemon": {takes: "xewi", long: list("--exec --ext --watch --ignore --delay"), script: list("-x --exec"), skip: 99}, "watchexec": {takes: "efiwdsN", long: list("--exts --filter --ignore --watch --debounce --signal"), dash: true}, "cargo watch": {takes: "xswicd", script: list("-s --shell"), skip: 99}, "chokidar": {takes: "c", script: list("-c --command"), skip: 99}, "reflex": {takes: "rgdRG", dash: true},
	"retry": {takes: "tmsd", dash: true}, "git bisect run": {}, "go run": {takes: "CopP", script: list("-exec --exec -toolexec --toolexec"), skip: 99}, "go test": {script: list("-exec --exec -toolexec --toolexec -vettool"), skip: 99}, "go build": {script: list("-toolexec --toolexec"), skip: 99}, "go vet": {script: list("-toolexec -vettool"), skip: 99}, "go install": {script: list("-toolexec"), skip: 99},
	"cmake -E env": {}, "cmake -E time": {}, "cmake -E chdir": {skip: 1}, "git submodule foreach": {flags: list("--recursive --quiet"), text: true}, "meson devenv": {takes: "Cw", dir: list("-w --workdir")}, "bazel run": {skip: 99, long: list("--run_under"), script: list("--run_under")},
	"screen": {takes: "cehpsStT"}, "tmux new-session": {takes: "cefFnstxy"}, "tmux new": {takes: "cefFnstxy"}, "tmux new-window": {takes: "cFnte"}, "tmux neww": {takes: "cFnte"}, "tmux split-window": {takes: "cFlte"}, "tmux run-shell": {takes: "dt", text: true}, "tmux run": {takes: "dt", text: true}, "tmux send-keys": {takes: "Nt", each: true}, "tmux send": {takes: "Nt", each: true}, "tmux if-shell": {takes: "t", each: true}, "screen -X": {},
	"ansible": {takes: "aimMueftckBPlI", script: list("-a --args"), skip: 99}, "salt": {skip: 2, text: true}, "capsh": {},
}

// wrapperOf returns how a command's words are read, the words that follow the program and
// its subcommand, and the program's name for messages.
func wrapperOf(name string, args []Word) (spec *wrapper, rest []Word, via string, ok bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "ld.so" {
		return &wrapper{long: list("--library-path --inhibit-rpath --audit --preload --argv0 --glibc-hwcaps-prepend --glibc-hwcaps-mask"), flags: list("--inhibit-cache --verify --list")}, args, "ld.so", true
	}
	if !runs[name] {
		return nil, nil, "", false
	}
	if spec, rest, via, ok := subcommand(name, args); ok {
		return spec, rest, via, true
	}
	spec, ok = wrappers[name]
	return spec, args, name, ok
}

// subcommand finds the subcommand of a program that runs a command: the first word after
// the program's own options and their values.
func subcommand(name string, args []Word) (spec *wrapper, rest []Word, via string, ok bool) {
	if !verbs[name] {
		return nil, nil, "", false
	}
	for i := 0; i < len(args) && i < 12; i++ {
		if spec, ok := wrappers[name+" "+args[i].Text]; ok {
			return spec, args[i+1:], name + " " + args[i].Text, true
		}
		if verbs[name+" "+args[i].Text] {
			return subcommand(name+" "+args[i].Text, args[i+1:])
		}
		option := strings.HasPrefix(args[i].Text, "-")
		if !option && (i == 0 || !strings.HasPrefix(args[i-1].Text, "-")) {
			break
		}
	}
	return nil, nil, "", false
}

// verbs are the programs that run a command by a subcommand.
var verbs = func() map[string]bool {
	out := map[string]bool{}
	for key := range wrappers {
		for i, r := range key {
			if r == ' ' {
				out[key[:i]] = true
			}
		}
	}
	return out
}()

// runs are the programs that run a command, whatever their first words are.
var runs = func() map[string]bool {
	out := maps.Clone(verbs)
	for key := range wrappers {
		out[key] = true
	}
	return out
}()

// wrapped is what a wrapper was given.
type wrapped struct {
	scripts []Word
	inner   []Word
	// other is the command under the assumption that an unknown option takes a value.
	other   [][]Word
	dir     Word
	program Word
	looks   bool
}

// parse splits a wrapper's words into options and command.
func (spec *wrapper) parse(args []Word) (out wrapped) {
	skip := spec.skip
	note := func(option string, v Word) {
		if slices.Contains(spec.script, option) {
			out.scripts = append(out.scripts, v)
		}
		if slices.Contains(spec.dir, option) {
			out.dir = v
		}
		if slices.Contains(spec.program, option) {
			out.program = v
		}
	}
	if spec.dash {
		if i := slices.IndexFunc(args, func(x Word) bool { return x.Text == "--" }); i >= 0 {
			skipped := *spec
			skipped.dash = false
			before := skipped.parse(args[:i])
			before.inner, before.other = args[i+1:], nil
			return before
		}
	}
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		switch {
		case a == "--":
			if i += min(skip, len(args)); i+1 < len(args) {
				out.inner = args[i+1:]
			}
			return out
		case slices.Contains(spec.lookup, a):
			out.looks = true
			return out
		case strings.HasPrefix(a, "-") && (strings.HasPrefix(a, "--") || slices.Contains(spec.script, a) && len(a) > 2):
			option, v, glued := strings.Cut(a, "=")
			switch {
			case slices.Contains(spec.pairs, option):
				i += 2
			case glued:
				note(option, Word{Text: v, Known: args[i].Known})
			case slices.Contains(spec.long, option) || slices.Contains(spec.script, option) || slices.Contains(spec.dir, option):
				if i++; i < len(args) {
					note(option, args[i])
				}
			case !slices.Contains(spec.flags, option) && !spec.sure && i+2 < len(args) && !strings.HasPrefix(args[i+1].Text, "-"):
				again := *spec
				again.sure, again.skip = true, skip
				if p := again.parse(args[i+2:]); len(p.inner) > 0 {
					out.other = append(out.other, p.inner)
				}
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			// A cluster: the first letter that takes a value takes the rest of the word.
			for j := 1; j < len(a); j++ {
				if strings.IndexByte(spec.glued, a[j]) >= 0 {
					break
				}
				if strings.IndexByte(spec.takes, a[j]) < 0 && !slices.Contains(spec.script, "-"+a[j:j+1]) {
					continue
				}
				if v := a[j+1:]; v != "" {
					note("-"+a[j:j+1], Word{Text: strings.TrimPrefix(v, "="), Known: args[i].Known})
				} else if i++; i < len(args) {
					note("-"+a[j:j+1], args[i])
				}
				break
			}
		case skip > 0:
			skip--
		default:
			out.inner = args[i:]
			return out
		}
	}
	return out
}

// wrap walks what a wrapper runs; ok reports whether the program is one.
func (w *walker) wrap(name string, args []Word, in value, r redirected, at int) (out value, ok bool) {
	if name == "env" {
		if inner, found := splitString(args); found {
			return w.under("env -S", func() value { return w.run(inner, in, r.connections(), nil, nil) }), true
		}
	}
	spec, rest, via, ok := wrapperOf(name, args)
	if !ok {
		return value{}, false
	}
	p := spec.parse(rest)
	if p.looks {
		// command -v writes where a program is.
		if x := operand(rest); x.Known && x.Text != "" {
			return known("/usr/bin/" + base(x.Text) + "\n"), true
		}
		return known(""), true
	}
	if name == "sudo" || name == "doas" {
		// Its interactive shell reads the script.
		if len(p.inner) == 0 && slices.ContainsFunc(rest, func(x Word) bool {
			return x.Text == "-s" || x.Text == "-i" || x.Text == "--shell" || x.Text == "--login" || x.Text == "-su"
		}) {
			p.inner = []Word{word("sh")}
		}
	}
	if name == "su" && len(p.scripts) == 0 && (in.text != "" || len(in.from) > 0) {
		p.inner = []Word{word("sh")}
	}
	switch {
	case p.program.Text != "":
		p.inner = append([]Word{p.program}, p.inner...)
	case name == "capsh" && len(p.inner) > 0:
		p.inner = append([]Word{word("sh")}, p.inner...)
	}
	if p.dir.Text != "" {
		before := w.dir
		w.dir = w.abs(p.dir.Text)
		defer func() { w.dir = before }()
	}
	out = unknown(at)
	for _, s := range p.scripts {
		out = w.code(via, value{text: s.Text, known: s.Known}, nil, in)
	}
	switch {
	case len(p.inner) == 0:
		return out, true
	case spec.each:
		for _, s := range p.inner {
			if strings.ContainsAny(s.Text, " ;|&$`(") {
				out = w.code(via, value{text: s.Text, known: s.Known}, nil, in)
			}
		}
		return out, true
	case spec.text, strings.HasPrefix(via, "tmux") && len(p.inner) == 1, via == "screen" && len(p.inner) == 1 && strings.Contains(p.inner[0].Text, " "):
		return w.code(via, joined(p.inner), nil, in), true
	}
	out = w.inner(via, p.inner, in, r.connections(), at)
	for _, other := range p.other {
		w.inner(via, other, in, redirected{}, at)
	}
	return out, true
}

// splitString returns the command of env -S.
func splitString(args []Word) ([]Word, bool) {
	for i, a := range args {
		text, found := strings.CutPrefix(a.Text, "--split-string")
		switch {
		case found:
			text = strings.TrimPrefix(text, "=")
		case strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.Contains(a.Text, "S"):
			_, text, _ = strings.Cut(a.Text, "S")
			found = true
		case !strings.HasPrefix(a.Text, "-") && !assignment.MatchString(a.Text):
			return nil, false
		}
		if !found {
			continue
		}
		rest := args[i+1:]
		known := a.Known
		if text == "" && len(rest) > 0 {
			text, known, rest = rest[0].Text, rest[0].Known, rest[1:]
		}
		return []Word{word("sh"), word("-c"), {Text: text + " " + quoteAll(rest), Known: known}}, true
	}
	return nil, false
}
