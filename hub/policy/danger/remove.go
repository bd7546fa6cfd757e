package danger

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// deleted notes the deletion of a path, with all below it when deep.
func (f *finder) deleted(c *shell.Command, p string, deep bool) {
	of := ""
	if deep || wild(p) {
		of = root(p)
	}
	switch {
	case block(p):
		f.add(Device, c, "it destroys %s", p)
	case deep && of != "":
		f.add(Wipe, c, "it deletes %s with all that is in it", of)
	case wild(p) && of != "" && of != p && of != shell.Workspace:
		f.add(Wipe, c, "it deletes what is in %s", of)
	case critical(p):
		f.add(Wipe, c, "it deletes %s", p)
	}
	f.history(c, p)
	f.log(c, p)
}

// deletes checks programs that delete or empty files.
func (f *finder) deletes(c *shell.Command, name string) {
	switch name {
	case "rm", "srm", "rmdir", "trash", "wipe", "del", "gio", "rimraf":
		if option(c, 0, "--no-preserve-root") {
			f.add(Wipe, c, "it is told not to spare the root")
		}
		deep := name != "rm" || option(c, 'r', "--recursive") || option(c, 'R')
		if name == "rmdir" {
			return
		}
		for _, a := range operands(c) {
			f.deleted(c, at(c, a), deep)
		}
		f.fed(c, deep)
	case "shred", "unlink", "truncate":
		for _, a := range operands(c) {
			f.deleted(c, at(c, a), false)
		}
		f.fed(c, false)
	case "find", "fd", "fdfind":
		f.finds(c)
	case "rsync":
		ops := operands(c)
		if slices.ContainsFunc(c.Args, func(a shell.Word) bool { return strings.HasPrefix(a.Text, "--del") }) && len(ops) > 1 {
			f.deleted(c, at(c, ops[len(ops)-1]), true)
		}
		if option(c, 0, "--remove-source-files") && len(ops) > 1 {
			f.deleted(c, at(c, ops[0]), true)
		}
	case "git":
		f.cleans(c)
	case "mv":
		ops := operands(c)
		for _, a := range ops[:max(len(ops)-1, 0)] {
			f.history(c, at(c, a))
			if p := at(c, a); root(p) != "" && !(root(p) == shell.Workspace && p != shell.Workspace) || critical(p) {
				f.add(Wipe, c, "it moves %s away", p)
			}
		}
		if len(ops) > 1 {
			f.written(c, at(c, ops[len(ops)-1]))
			if at(c, ops[len(ops)-1]) == "/dev/null" {
				f.deleted(c, at(c, ops[0]), true)
			}
		}
	case "tar", "zip", "7z":
		if option(c, 0, "--remove-files") || name == "zip" && option(c, 'm') {
			for _, a := range operands(c) {
				f.deleted(c, at(c, a), true)
			}
		}
	case "cp", "install", "ln", "scp", "tee", "sponge", "dd", "sed", "perl", "link":
		f.overwrites(c, name)
	case "ls":
	case "btrfs":
		if has(c, "delete") {
			f.add(Wipe, c, "it deletes a volume")
		}
	case "busctl":
	}
}

// cleans checks "git clean" outside of the workspace, where the files are not the task's.
func (f *finder) cleans(c *shell.Command) {
	if !has(c, "clean") || option(c, 'n', "--dry-run") {
		return
	}
	dir := c.Dir
	for i, a := range c.Args {
		if a.Text == "-C" && i+1 < len(c.Args) {
			dir = at(c, c.Args[i+1])
		}
	}
	if dir != shell.Workspace {
		f.deleted(c, dir, true)
	}
}

// fed checks programs that delete files whose names come from another program.
func (f *finder) fed(c *shell.Command, deep bool) {
	if !slices.Contains(c.Via, "xargs") && !slices.Contains(c.Via, "parallel") &&
		!slices.ContainsFunc(operands(c), func(a shell.Word) bool { return !a.Known && strings.ContainsAny(a.Text, shell.Hole) }) {
		return
	}
	f.comesFrom(c, func(from *shell.Command) bool {
		switch from.Name() {
		case "ls", "find", "echo", "printf", "du", "dir", "tree", "fd", "fdfind", "locate", "stat":
			if narrow(from) {
				return false
			}
			for _, a := range operands(from) {
				if p := at(from, a); root(p) != "" && root(p) != shell.Workspace && (deep || from.Name() != "echo" && from.Name() != "printf") {
					f.add(Wipe, c, "it deletes what is in %s", root(p))
					return true
				}
			}
		}
		return false
	})
}

// narrow reports whether find looks for something that it can name.
func narrow(c *shell.Command) bool {
	for i, a := range c.Args {
		switch a.Text {
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-samefile", "-inum", "-user", "-newer":
			// A path that is all of a root is no name.
			if i+1 < len(c.Args) && root(strings.TrimRight(c.Args[i+1].Text, "*.?+/$")) == "" && len(strings.Trim(c.Args[i+1].Text, "*?.[]/!^-")) >= 2 {
				return true
			}
		case "-empty", "-mtime", "-ctime", "-atime", "-mmin", "-size", "-xtype":
			return root(start(c)) != "/" && root(start(c)) != "/etc" && root(start(c)) != "/usr"
		}
	}
	return false
}

func start(c *shell.Command) string {
	if len(c.Args) > 1 && !strings.HasPrefix(c.Args[1].Text, "-") {
		return at(c, c.Args[1])
	}
	return clean(".", c.Dir)
}

// finds checks what find deletes or runs at a root.
func (f *finder) finds(c *shell.Command) {
	deadly := has(c, "-delete")
	if narrow(c) {
		for i, a := range c.Args {
			if (a.Text == "-name" || a.Text == "-iname" || a.Text == "-path") && i+1 < len(c.Args) && (deadly || has(c, "rm", "shred", "unlink", "truncate")) {
				named := clean(start(c)+"/"+base(c.Args[i+1].Text), c.Dir)
				f.history(c, named)
				f.log(c, named)
			}
		}
		return
	}
	for i, a := range c.Args {
		switch a.Text {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X":
			if i+1 < len(c.Args) {
				run := c.Args[i+1].Text
				rest := strings.Join(texts(c.Args[i+1:]), " ")
				if r := base(run); (r == "chmod" || r == "chown" || r == "setfacl" || r == "chgrp") && root(start(c)) != "" && root(start(c)) != shell.Workspace {
					f.add(Permissions, c, "it changes the rights on what is in %s", root(start(c)))
				}
				deadly = deadly || slices.Contains([]string{"rm", "shred", "unlink", "truncate", "srm"}, base(run)) || strings.Contains(rest, "rm -") || strings.Contains(rest, "unlink")
			}
		}
	}
	if !deadly {
		return
	}
	for _, a := range c.Args[1:] {
		if strings.HasPrefix(a.Text, "-") || a.Text == "(" || a.Text == "!" {
			break
		}
		f.deleted(c, at(c, a), true)
	}
}

func base(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

func texts(words []shell.Word) (out []string) {
	for _, w := range words {
		out = append(out, w.Text)
	}
	return out
}

// overwrites checks programs that write to the files that they name.
func (f *finder) overwrites(c *shell.Command, name string) {
	ops := operands(c)
	switch name {
	case "tee", "sponge":
		for _, a := range ops {
			f.written(c, at(c, a))
		}
	case "dd":
		for _, a := range c.Args[1:] {
			if to, ok := strings.CutPrefix(a.Text, "of="); ok {
				f.written(c, at(c, shell.Word{Text: to}))
			}
			if from, ok := strings.CutPrefix(a.Text, "if="); ok {
				secretFinder{f}.secret(c, at(c, shell.Word{Text: from}))
			}
		}
	case "sed", "perl":
		if option(c, 'i', "--in-place") {
			for _, a := range ops {
				if strings.HasPrefix(a.Text, "/") || strings.HasPrefix(a.Text, "~") {
					f.written(c, at(c, a))
				}
			}
		}
	default:
		for i, a := range c.Args {
			if (a.Text == "-t" || a.Text == "--target-directory") && i+1 < len(c.Args) {
				f.written(c, at(c, c.Args[i+1])+"/x")
			}
		}
		if len(ops) > 1 {
			to := at(c, ops[len(ops)-1])
			f.written(c, to)
			for _, from := range ops[:len(ops)-1] {
				f.written(c, clean(to+"/"+base(from.Text), "/"))
			}
		}
	}
}

// devices checks programs that create or destroy file systems and partitions.
func (f *finder) devices(c *shell.Command, name string) {
	disk := func() string {
		for _, a := range operands(c) {
			if p := at(c, a); block(p) || strings.HasPrefix(p, "/dev/") && p != "/dev/null" && p != "/dev/zero" && p != "/dev/urandom" && p != "/dev/random" &&
				p != "/dev/stdin" && p != "/dev/stdout" && p != "/dev/stderr" && !strings.HasPrefix(p, "/dev/shm") && !strings.HasPrefix(p, "/dev/fd") && p != "/dev/tty" && p != "/dev/full" {
				return p
			}
		}
		return ""
	}
	unknownTarget := func() bool {
		ops := operands(c)
		return len(ops) > 0 && !ops[len(ops)-1].Known && !ops[len(ops)-1].Glob
	}
	switch {
	case name == "mkfs" || strings.HasPrefix(name, "mkfs.") || name == "mke2fs" || name == "mkswap" || name == "mkdosfs" || name == "mkntfs" || name == "newfs":
		if d := disk(); d != "" || unknownTarget() {
			f.add(Device, c, "it makes a new file system on %s", d)
		}
	case slices.Contains([]string{"wipefs", "blkdiscard", "hdparm", "nvme", "sgdisk", "parted", "fdisk", "sfdisk", "cfdisk", "gdisk", "badblocks", "debugfs", "tune2fs", "cryptsetup", "pvremove", "pvcreate", "mdadm", "sg_format", "partprobe", "resize2fs"}, name):
		reads := has(c, "-l", "--list", "print", "list", "-d", "--dump", "-I", "--info", "id-ctrl", "smart-log", "--detail", "-p", "status", "luksDump", "open", "luksOpen", "--examine", "-n", "--no-act", "-t", "-T", "-tT") && !has(c, "-a", "-f")
		if disk() != "" && !reads {
			f.add(Device, c, "it changes the disk %s", disk())
		}
	case slices.Contains([]string{"lvremove", "vgremove", "zpool", "zfs"}, name):
		if name[0] != 'z' || has(c, "destroy", "labelclear") {
			f.add(Device, c, "it destroys a volume")
		}
	case name == "mount":
		if d := disk(); d != "" && block(d) {
			f.add(Device, c, "it mounts the disk %s", d)
		}
	case slices.Contains([]string{"shred", "truncate", "cat", "pv", "cp"}, name):
		if name == "shred" && block(disk()) {
			f.add(Device, c, "it destroys the disk %s", disk())
		}
	}
}

var someLog = compile(`^/var/log/(?:auth\.log|secure|syslog|messages|kern\.log|wtmp|btmp|lastlog|faillog|utmp|maillog|cron|daemon\.log|user\.log|dmesg|sudo\.log|audit(?:/.*)?|journal(?:/.*)?|\*+|\*\.log|\*\*/\*.*)$|^/(?:var/)?run/(?:utmp|log/journal.*)$`)

// log notes that a log is deleted, emptied or rewritten.
func (f *finder) log(c *shell.Command, p string) {
	if someLog.MatchString(p) || p == "/var/log" {
		f.add(Logs, c, "it wipes or rewrites the log %s", p)
	}
}

var someHistory = compile(`/\.(?:bash|zsh|sh|ksh|ash|fish|python|psql|mysql|sqlite|node_repl|irb|rediscli|lesshst|ba\*|b\*|\*)_?(?:history|hist\*?|\*history)$|/\.history$|/\.lesshst$|/\.zhistory$|/fish_history$|/\.\*_history$|/\.\*hist\*$`)

// history notes that a shell's history is deleted or emptied.
func (f *finder) history(c *shell.Command, p string) {
	if someHistory.MatchString(p) {
		f.add(History, c, "it wipes the history %s", p)
	}
}
