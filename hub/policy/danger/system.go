package danger

import (
	"path"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

var lasting = compile(`/\.ssh/(?:authorized_keys2?|rc|environment)$|^/etc/(?:cron[^/]*(?:/.*)?|anacrontab|rc\.local|rc\.d/.*|init\.d/.*|profile|profile\.d/.*|bash\.bashrc|bashrc|environment|ld\.so\.preload|ld\.so\.conf(?:\.d/.*)?|pam\.d/.*|pam\.conf|sudoers(?:\.d/.*)?|udev/rules\.d/.*|update-motd\.d/.*|systemd/system/.*|systemd/user/.*|xdg/autostart/.*|inittab|ssh/sshd_config(?:\.d/.*)?|security/.*|modules-load\.d/.*|apt/apt\.conf\.d/.*|NetworkManager/dispatcher\.d/.*)$|^/var/spool/(?:cron|at)/.*|^/(?:usr/)?lib/systemd/system/.*|/\.config/(?:systemd/user|autostart)/.*\.(?:service|desktop|timer)$|^/etc/(?:passwd|shadow|group|gshadow)$`)

// written notes that a file is written whose content or being matters.
func (f *finder) written(c *shell.Command, p string) {
	switch {
	case p == "":
	case block(p):
		f.add(Device, c, "it writes to the disk %s", p)
	case strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/"):
	case lasting.MatchString(p):
		f.add(Persistence, c, "it writes %s", p)
	case p == "/proc/sysrq-trigger" || strings.HasPrefix(p, "/proc/sys/") || strings.HasPrefix(p, "/sys/") && p != "/sys" || strings.HasPrefix(p, "/boot/") || strings.HasPrefix(p, "/proc/1/") ||
		strings.HasPrefix(p, "/lib/modules/") || path.Base(p) == "release_agent" || path.Base(p) == "oom_score_adj" && strings.HasPrefix(p, "/proc/1/"):
		f.add(Kernel, c, "it changes the kernel or how the machine starts, by %s", p)
	case critical(p):
		f.add(Wipe, c, "it overwrites %s", p)
	}
	if startup.MatchString(p) {
		f.startup(c, p)
	}
	f.history(c, p)
	// Appending to a log is normal.
	if name := c.Name(); name != "logger" {
		f.log(c, p)
	}
}

var startup = compile(`/\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|kshrc|config/fish/config\.fish|xinitrc|xsession|vimrc)$`)

// startup checks what is written to a file that each shell runs at its start.
func (f *finder) startup(c *shell.Command, p string) {
	text := c.Input.Text
	if len(c.Args) > 1 && slices.Contains([]string{"echo", "printf", "sed"}, c.Name()) {
		text += "\n" + strings.Join(texts(c.Args[1:]), " ")
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, shell.Hole, ""), shell.Unset, "")
	if found := In(shell.Read(text, shell.Options{})); len(found) > 0 || suspicious.MatchString(text) {
		f.add(Persistence, c, "it has every shell run more than settings, by %s", p)
	}
}

var suspicious = compile(`(?m)/tmp/|/dev/shm/|\bnohup\b|\bcurl\b|\bwget\b|\bnc\b|&\s*$|PROMPT_COMMAND|LD_PRELOAD`)

// stays checks for ways to persist on a machine.
func (f *finder) stays(c *shell.Command, name string) {
	switch name {
	case "crontab":
		if has(c, "-l", "-e", "-V", "--help") {
			return
		}
		if has(c, "-r") {
			f.add(Persistence, c, "it removes what is scheduled")
			return
		}
		f.add(Persistence, c, "it changes what is scheduled")
	case "at", "batch":
		if !has(c, "-l", "-V", "-d", "-c") {
			f.add(Persistence, c, "it schedules a command")
		}
	case "useradd", "adduser", "usermod":
		for i, a := range c.Args {
			next := c.Arg(i + 1)
			groups := strings.Split(next, ",")
			switch {
			case (a.Text == "-u" || a.Text == "--uid") && next == "0", a.Text == "-o", a.Text == "--non-unique", a.Text == "-ou0", a.Text == "-u0":
				f.add(Persistence, c, "it makes another root")
			case (a.Text == "-G" || a.Text == "-aG" || a.Text == "-Ga" || a.Text == "--groups" || a.Text == "-g") && slices.ContainsFunc(groups, powerful):
				f.add(Persistence, c, "it gives an account the rights of root")
			}
		}
		if ops := operands(c); name == "adduser" && len(ops) == 2 && powerful(ops[1].Text) {
			f.add(Persistence, c, "it gives an account the rights of root")
		}
	case "gpasswd":
		if ops := operands(c); len(ops) > 0 && powerful(ops[len(ops)-1].Text) {
			f.add(Persistence, c, "it gives an account the rights of root")
		}
	case "passwd", "chpasswd":
		if name == "chpasswd" || has(c, "root") || option(c, 'd', "--delete") {
			if !has(c, "-S", "--status") {
				f.add(Persistence, c, "it changes a password")
			}
		}
	case "setcap":
		if s := strings.Join(texts(c.Args[1:]), " "); systemPattern1.MatchString(s) && !has(c, "-r", "-v") {
			f.add(Persistence, c, "it gives a program rights of root")
		}
	case "systemctl":
		for _, a := range operands(c) {
			if has(c, "enable", "link") && strings.HasPrefix(a.Text, "/") {
				f.add(Persistence, c, "it has %s start with the machine", a.Text)
			}
		}
	case "ssh-copy-id":
	}
}

func powerful(group string) bool {
	return slices.Contains([]string{"sudo", "wheel", "root", "docker", "admin", "lxd", "disk", "shadow", "adm", "0"}, group)
}

var setuid = compile(`^(?:0?[2467][0-7]{3}|(?:[ugoa]*[+=][rwxX]*s[rwxst]*)(?:,.*)?)$`)

// rights checks for changes of permissions and owners.
func (f *finder) rights(c *shell.Command, name string) {
	switch name {
	case "chmod", "chown", "chgrp", "setfacl", "chattr", "chcon":
	case "install", "mkdir":
		for i, a := range c.Args {
			mode, ok := strings.CutPrefix(a.Text, "--mode=")
			if (a.Text == "-m" || a.Text == "--mode" || strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.HasSuffix(a.Text, "m")) && i+1 < len(c.Args) {
				mode, ok = c.Args[i+1].Text, true
			} else if strings.HasPrefix(a.Text, "-m") && len(a.Text) > 2 {
				mode, ok = a.Text[2:], true
			}
			if ok && name == "install" && ownersRights(mode) {
				f.add(Persistence, c, "it has a program run with the rights of its owner")
			}
		}
		return
	default:
		return
	}
	ops := operands(c)
	deep := option(c, 'R', "--recursive")
	mode := ""
	if len(ops) > 0 {
		mode = ops[0].Text
	}
	for _, a := range c.Args[1:] {
		if name == "chmod" && setuid.MatchString(a.Text) && len(a.Text) > 2 {
			mode = a.Text
		}
	}
	if name == "chmod" && ownersRights(mode) {
		f.add(Persistence, c, "it has a program run with the rights of its owner")
	}
	for i, a := range ops {
		p := at(c, a)
		if i == 0 && name != "chattr" && name != "setfacl" && !strings.HasPrefix(a.Text, "/") {
			continue
		}
		r := root(p)
		switch {
		case r != "" && r != shell.Workspace && (deep || r == "/" || name == "chmod" && open(mode)):
			f.add(Permissions, c, "it changes the rights on %s", p)
		case critical(p) || secretFile(p) && open(mode):
			if name != "chattr" || strings.Contains(strings.Join(texts(c.Args), " "), "-i") || strings.Contains(strings.Join(texts(c.Args), " "), "+i") {
				f.add(Permissions, c, "it changes the rights on %s", p)
			}
		case name == "chattr" && someLog.MatchString(p):
			f.add(Logs, c, "it changes the log %s", p)
		}
	}
}

// ownersRights reports whether a mode sets the setuid bit.
func ownersRights(mode string) bool {
	return setuid.MatchString(mode) && !strings.HasPrefix(mode, "02") && !strings.HasPrefix(mode, "2") && !strings.HasPrefix(mode, "g")
}

// open reports whether a mode lets every user write, or locks users out.
func open(mode string) bool {
	m := strings.TrimLeft(mode, "0")
	return len(m) == 3 && strings.ContainsAny(m[2:], "2367") || m == "" || strings.HasPrefix(mode, "a+") || strings.HasPrefix(mode, "o+") || strings.HasPrefix(mode, "+") || strings.HasPrefix(mode, "a=") ||
		strings.HasPrefix(mode, "ugo") || len(m) == 3 && strings.ContainsAny(m[2:], "4") && m[0] != '7' && m != "644"
}

// kernel checks for changes of the running machine.
func (f *finder) kernel(c *shell.Command, name string) {
	switch name {
	case "sysctl":
		for _, a := range c.Args[1:] {
			if a.Text == "-w" || a.Text == "--write" || a.Text == "-p" || strings.HasPrefix(a.Text, "--load") || strings.HasPrefix(a.Text, "--system") ||
				strings.Contains(a.Text, "=") && !strings.HasPrefix(a.Text, "-") {
				f.add(Kernel, c, "it changes how the kernel works")
			}
		}
	case "insmod", "rmmod", "kexec":
		f.add(Kernel, c, "it changes the running kernel")
	case "modprobe":
		if !option(c, 'n', "--dry-run", "--show", "--show-depends", "--showconfig") && !option(c, 'D') && !option(c, 'c') {
			f.add(Kernel, c, "it changes the running kernel")
		}
	case "reboot", "shutdown", "halt", "poweroff", "telinit":
		if !has(c, "-c", "--help", "--version") {
			f.add(Kernel, c, "it stops the machine")
		}
	case "init":
		if has(c, "0", "1", "6", "s", "S") {
			f.add(Kernel, c, "it stops the machine")
		}
	case "systemctl":
		if has(c, "reboot", "poweroff", "halt", "kexec", "emergency", "rescue", "isolate") {
			f.add(Kernel, c, "it stops the machine")
		}
	case "kill":
		ops := c.Args[1:]
		for i, a := range ops {
			if a.Text == "-1" && (i > 0 || len(ops) > 1 && ops[0].Text == "--") || a.Text == "1" && i == len(ops)-1 && !has(c, "-0", "-l") {
				f.add(Kernel, c, "it ends every process, or the first")
			}
		}
	case "killall5":
		f.add(Kernel, c, "it ends every process")
	case "pkill":
		if option(c, 0, "--inverse") {
			f.add(Kernel, c, "it ends every process but some")
		}
		if ops := operands(c); len(ops) == 1 && strings.Trim(ops[0].Text, ".*") == "" && ops[0].Text != "" {
			f.add(Kernel, c, "it ends every process")
		}
	case "grub-install", "grub-mkconfig", "update-grub", "efibootmgr", "bootctl", "lilo", "flashrom", "fwupdmgr":
		if name != "efibootmgr" && name != "bootctl" && name != "fwupdmgr" || len(c.Args) > 1 && !has(c, "-v", "status", "list", "get-devices") {
			f.add(Kernel, c, "it changes how the machine starts")
		}
	case "umount":
		for _, a := range operands(c) {
			if r := root(at(c, a)); r == "/" || r == "/boot" || r == "/usr" || r == "/var" || r == "/home" {
				f.add(Kernel, c, "it takes %s away", r)
			}
		}
		if option(c, 'a', "--all") {
			f.add(Kernel, c, "it takes every file system away")
		}
	case "mount":
		if s := strings.Join(texts(c.Args), " "); strings.Contains(s, "remount") && strings.Contains(s, "rw") || strings.Contains(s, "cgroup") && strings.Contains(s, "-t") {
			f.add(Escape, c, "it changes what is mounted")
		}
	case "nsenter":
		if s := strings.Join(texts(c.Args), " "); strings.Contains(s, "-t 1") || strings.Contains(s, "-t1") || strings.Contains(s, "--target 1") || strings.Contains(s, "--target=1") || strings.Contains(s, "/proc/1/ns") {
			f.add(Escape, c, "it enters the machine's own namespaces")
		}
	case "docker", "podman", "nerdctl":
		s := " " + strings.Join(texts(c.Args), " ") + " "
		if strings.Contains(s, " --privileged") || strings.Contains(s, "--pid=host") || strings.Contains(s, "--pid host") || systemPattern2.MatchString(s) ||
			systemPattern3.MatchString(s) || strings.Contains(s, "--cap-add=SYS_ADMIN") || strings.Contains(s, "--cap-add=ALL") {
			f.add(Escape, c, "it starts a container that has the machine")
		}
		if has(c, "prune") && has(c, "-af", "-a", "--all") && has(c, "--volumes") {
			f.add(Wipe, c, "it deletes every volume")
		}
	case "chroot":
		if p := at(c, shell.Word{Text: c.Arg(1)}); p == "/" && strings.HasPrefix(c.Arg(1), "/proc/") || c.Arg(1) == "/host" || c.Arg(1) == "/mnt/host" || c.Arg(1) == "/hostfs" {
			f.add(Escape, c, "it goes to the machine's own root")
		}
	case "dropdb":
	}
}

// Patterns of the functions above.
var (
	systemPattern1 = compile(`cap_(?:setuid|setgid|sys_admin|dac_override|dac_read_search|sys_ptrace|sys_module|all)|=ep`)
	systemPattern2 = compile(`(?:-v|--volume)[ =]?/(?:etc|root|proc|var/run/docker\.sock|run/docker\.sock)?:`)
	systemPattern3 = compile(`(?:source|src)=/,`)
)
