package shell

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Record holds the known contents of files that scripts and tools have written. It is
// passed from one script of a task to the next. The zero Record is empty. A Record is
// immutable.
type Record struct {
	files map[string]File
	// trees are folders that were brought from elsewhere as a whole.
	trees map[string]File
	links map[string]string
}

// File is what is known of one file.
type File struct {
	// Text is its content, where Known.
	Text  string
	Known bool
	// Made are the commands that brought it, if its content is not known.
	Made []Command
}

// maxRecorded is the highest number of files of a record, and maxMade that of the
// commands that are kept for one of them.
const (
	maxRecorded = 2000
	maxMade     = 16
)

// With returns a record in which a file has a content.
func (r Record) With(name, text string) Record {
	return r.set(name, File{Text: text, Known: true})
}

// WithUnknown returns a record in which a command wrote unknown content to a file.
func (r Record) WithUnknown(name string, by string) Record {
	return r.set(name, File{Made: []Command{{Args: []Word{word(by)}, Line: 1}}})
}

func (r Record) set(name string, f File) Record {
	r.files = maps.Clone(r.files)
	if r.files == nil {
		r.files = map[string]File{}
	}
	if len(r.files) < maxRecorded {
		r.files[name] = f
	}
	return r
}

// Get returns what is known of a file.
func (r Record) Get(name string) (File, bool) {
	f, ok := r.files[name]
	return f, ok
}

// Len is the number of files that the record knows of.
func (r Record) Len() int { return len(r.files) }

// Moved returns a record in which a file, or a folder, has another name, or lies
// nowhere where to is "".
func (r Record) Moved(from, to string) Record {
	out := Record{files: map[string]File{}, trees: r.trees, links: r.links}
	for name, f := range r.files {
		rest, below := strings.CutPrefix(name, from+"/")
		switch {
		case name == from && to != "":
			out.files[to] = f
		case below && to != "":
			out.files[path.Join(to, rest)] = f
		case name != from && !below:
			out.files[name] = f
		}
	}
	return out
}

// record returns what is known after the script.
func (w *walker) record() Record {
	if len(w.files) == 0 && len(w.trees) == 0 && len(w.links) == len(w.earlier.links) {
		return w.earlier
	}
	out := Record{files: maps.Clone(w.earlier.files), trees: maps.Clone(w.earlier.trees), links: w.links}
	if out.files == nil {
		out.files = map[string]File{}
	}
	if out.trees == nil {
		out.trees = map[string]File{}
	}
	for name, v := range w.files {
		if len(out.files) < maxRecorded && !strings.HasPrefix(name, "/dev/fd/") {
			out.files[name] = w.made(v)
		}
	}
	for name, v := range w.trees {
		if len(out.trees) < maxRecorded {
			out.trees[name] = w.made(v)
		}
	}
	return out
}

func (w *walker) made(v value) File {
	f := File{Text: v.text, Known: v.known && !holed(v.text)}
	if f.Known {
		return f
	}
	f.Text = ""
	seen := map[int]bool{}
	for todo := slices.Clone(v.from); len(todo) > 0 && len(f.Made) < maxMade; todo = todo[1:] {
		i := todo[0]
		if seen[i] {
			continue
		}
		seen[i] = true
		c := w.command1(i)
		if c == nil {
			continue
		}
		todo = append(todo, c.From...)
		one := *c
		one.From, one.links, one.Input = nil, nil, Word{}
		f.Made = append(f.Made, one)
	}
	if len(f.Made) == 0 {
		f.Made = unseen
	}
	return f
}

// unseen represents an unknown command that wrote a file.
var unseen = []Command{{Args: []Word{word("an earlier command")}, Line: 1}}

// command1 returns the command that an index of From refers to.
func (w *walker) command1(i int) *Command {
	switch {
	case i >= 0 && i < len(w.out.Commands):
		return &w.out.Commands[i]
	case i < 0 && -1-i < len(w.out.Earlier):
		return &w.out.Earlier[-1-i]
	}
	return nil
}

// recorded returns a file of the record as a value of this script.
func (w *walker) recorded(f File) value {
	if f.Known {
		return known(f.Text)
	}
	var from []int
	for _, c := range f.Made {
		w.out.Earlier = append(w.out.Earlier, c)
		from = append(from, -len(w.out.Earlier))
	}
	return unknown(from...)
}

// single returns what is known of a file that was written by its own absolute path. ok
// reports whether it was.
func (w *walker) single(name string) (v value, ok bool) {
	if v, ok := w.files[name]; ok {
		return v, true
	}
	if w.looks != nil {
		if text, told, ok := w.looks.Text(name); ok && told {
			return known(text), true
		} else if ok {
			return w.recorded(File{Made: unseen}), true
		}
	}
	if f, ok := w.earlier.files[name]; ok {
		return w.recorded(f), true
	}
	return value{}, false
}

// content returns what is known of a file that the script or an earlier one wrote, by its
// own absolute path or as part of a folder. ok reports whether one of them did.
func (w *walker) content(name string) (v value, ok bool) {
	if v, ok := w.single(name); ok {
		return v, true
	}
	for dir := path.Dir(name); len(w.trees)+len(w.earlier.trees) > 0; dir = path.Dir(dir) {
		if v, ok := w.trees[dir]; ok {
			return unknown(v.from...), true
		}
		if f, ok := w.earlier.trees[dir]; ok {
			return w.recorded(f), true
		}
		if dir == "/" || dir == "." {
			break
		}
	}
	return value{}, false
}

// untouched reports whether no file is known to have been written.
func (w *walker) untouched() bool {
	return len(w.files)+len(w.earlier.files) == 0 && (w.looks == nil || len(w.looks.Names()) == 0)
}

// each calls fn for the files that were written and that fit, in the order of
// their names.
func (w *walker) each(fits func(name string) bool, fn func(name string, v value)) {
	names := slices.Concat(slices.Collect(maps.Keys(w.files)), slices.Collect(maps.Keys(w.earlier.files)))
	if w.looks != nil {
		names = append(names, w.looks.Names()...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !fits(name) {
			continue
		}
		if v, ok := w.content(name); ok {
			fn(name, v)
		}
	}
}

// resolve returns a path from the root, with the links that are known followed.
func resolve(name, dir string, links map[string]string) string {
	if !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	if name = path.Clean(name); len(links) == 0 {
		return name
	}
	for range 8 {
		to, ok := followed(name, links)
		if !ok {
			break
		}
		name = to
	}
	return name
}

// followed replaces the shortest part of a path that is a link.
func followed(name string, links map[string]string) (string, bool) {
	if len(links) == 0 {
		return name, false
	}
	for i := 1; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if to, ok := links[name[:i]]; ok {
			return path.Clean(to + name[i:]), true
		}
	}
	return name, false
}

// link notes that a path is a symbolic link.
func (w *walker) link(to, name string) {
	if !strings.HasPrefix(to, "/") {
		to = path.Join(path.Dir(name), to)
	}
	if to == name {
		return
	}
	w.links = maps.Clone(w.links)
	if w.links == nil {
		w.links = map[string]string{}
	}
	if len(w.links) < maxRecorded {
		w.links[name] = path.Clean(to)
	}
}
