// Command tracegen writes the labelled test data of package loopguard; its
// output is the same each time:
//
//	go run ./worker/loopguard/tracegen > worker/loopguard/testdata/traces.jsonl
//
// Each family below is one way in which agents work or repeat themselves. Some
// are designed to be missed, or to look stuck when they are not.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/worker/loopguard"
)

// perFamily is the number of traces in each family.
const perFamily = 5

type gen struct {
	*rand.Rand

	n int // for values that never come twice
}

func main() {
	out := json.NewEncoder(os.Stdout)
	for i, f := range families {
		for n := range perFamily {
			g := &gen{Rand: rand.New(rand.NewPCG(uint64(i), uint64(n)))} //nolint:gosec // variety, the same each time
			turns := g.work(2 + g.IntN(8))
			turns = append(turns, f.make(g)...)
			if !f.stuck {
				turns = append(turns, g.work(1+g.IntN(4))...)
			}
			if err := out.Encode(loopguard.Trace{Name: fmt.Sprintf("%s-%d", f.name, n+1), Stuck: f.stuck, Turns: turns}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
}

func one(c loopguard.Call) []loopguard.Call { return []loopguard.Call{c} }

func arguments(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1] //nolint:forcetypeassert,gosec // the pairs below
	}
	data, _ := json.Marshal(m) //nolint:errchkjson // texts and numbers
	return string(data)
}

func shell(command, result string) loopguard.Call {
	return loopguard.Call{Tool: toolname.ShellExec, Arguments: arguments("command", command), Result: result}
}

func changed(c loopguard.Call) loopguard.Call {
	c.Changed = true
	return c
}

var words = strings.Fields("auth billing cache config cron db edge events export files http index jobs keys ledger log mail metrics node " +
	"orders parser payment policy queue relay retry router search session shell stats store sync task token trace upload user vault web")

func (g *gen) word() string { return words[g.IntN(len(words))] }
func (g *gen) file() string {
	return fmt.Sprintf("%s/%s_%s.go", g.word(), g.word(), g.word())
}
func (g *gen) clock() string {
	g.n += 1 + g.IntN(40)
	return fmt.Sprintf("2026-03-01T10:%02d:%02d", g.n/60%60, g.n%60)
}
func (g *gen) prose(lines int) string {
	var out []string
	for range lines {
		out = append(out, fmt.Sprintf("%s %s: %s %s (%d)", g.clock(), g.word(), g.word(), g.word(), g.IntN(100000)))
	}
	return strings.Join(out, "\n")
}
func (g *gen) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

// work is what an agent does that gets on.
func (g *gen) work(n int) [][]loopguard.Call {
	var out [][]loopguard.Call
	for range n {
		switch g.IntN(5) {
		case 0:
			out = append(out, []loopguard.Call{g.read(), g.read()})
		case 1:
			out = append(out, one(shell("grep -rn "+g.word()+g.word()+" "+g.word(), "exit status 0\n"+g.prose(3))))
		case 2:
			out = append(out, one(g.edit()))
		case 3:
			out = append(out, one(shell(fmt.Sprintf("wc -l %s", g.file()), fmt.Sprintf("exit status 0\n%d", g.IntN(10000)))))
		default:
			out = append(out, one(loopguard.Call{Tool: toolname.FileList, Arguments: arguments("path", g.word()+"/"+g.word()), Result: g.prose(4)}))
		}
	}
	return out
}

func (g *gen) read() loopguard.Call {
	return loopguard.Call{Tool: toolname.FileRead, Arguments: arguments("path", g.file()), Result: g.prose(5)}
}

func (g *gen) edit() loopguard.Call {
	return changed(loopguard.Call{
		Tool: toolname.FileEdit, Arguments: arguments("path", g.file(), "old", g.prose(1), "new", g.prose(1)),
		Result: fmt.Sprintf("edited: sha256 %x", g.Uint64()),
	})
}

// again repeats a row of calls, each call an iteration.
func again(n int, calls ...loopguard.Call) [][]loopguard.Call {
	var out [][]loopguard.Call
	for range n {
		for _, c := range calls {
			out = append(out, one(c))
		}
	}
	return out
}

func many(n int, make func(i int) loopguard.Call) [][]loopguard.Call {
	var out [][]loopguard.Call
	for i := range n {
		out = append(out, one(make(i)))
	}
	return out
}

func (g *gen) testFails() string {
	return fmt.Sprintf("exit status 1\n--- FAIL: Test%s (0.0%ds)\n    %s: got %d, want %d\nFAIL", g.word(), g.IntN(9), g.file(), g.IntN(9), g.IntN(9))
}

var families = []struct {
	name  string
	stuck bool
	make  func(g *gen) [][]loopguard.Call
}{
	// Stuck.
	{"same-call", true, func(g *gen) [][]loopguard.Call {
		return again(14+g.IntN(10), shell("cat "+g.file(), "exit status 0\n"+g.prose(3)))
	}},
	{"reworded-search", true, func(g *gen) [][]loopguard.Call {
		what, where := g.word()+"Handler", g.word()
		forms := []string{`grep -rn "%s" %s`, `grep -rn '%s' %s`, `grep -rn %s %s | head -50`, `grep -rn %s %s 2>/dev/null`, `grep -rn "%s" %s # look again`, `grep -rn %s %s | head -n 100`}
		return many(16+g.IntN(8), func(i int) loopguard.Call {
			return shell(fmt.Sprintf(forms[i%len(forms)], what, where), "exit status 0\n"+where+"/a.go:12: func "+what)
		})
	}},
	{"two-files", true, func(g *gen) [][]loopguard.Call { return again(9+g.IntN(5), g.read(), g.read()) }},
	{"three-step-circle", true, func(g *gen) [][]loopguard.Call {
		return again(8+g.IntN(3), g.read(), shell("git status", "exit status 0\nnothing to commit"), loopguard.Call{Tool: toolname.FileList, Arguments: "{}", Result: g.prose(3)})
	}},
	{"permission-denied", true, func(g *gen) [][]loopguard.Call {
		f := g.word()
		return many(12+g.IntN(5), func(i int) loopguard.Call {
			return shell(fmt.Sprintf("%s /etc/%s.conf", g.pick("cp x", "tee", "mv x", "install x", "touch"), f), fmt.Sprintf("exit status 1\ncannot open /etc/%s.conf: Permission denied", f))
		})
	}},
	{"install-fails", true, func(g *gen) [][]loopguard.Call {
		pkg := g.word()
		return many(9+g.IntN(6), func(int) loopguard.Call {
			return shell("pip install "+pkg, fmt.Sprintf("exit status 1\n%s ERROR: could not find a version of %s after %d.%ds", g.clock(), pkg, g.IntN(9), g.IntN(9)))
		})
	}},
	{"edits-undo-each-other", true, func(g *gen) [][]loopguard.Call {
		a, b, fails := g.edit(), g.edit(), g.testFails()
		test := shell("go test ./...", fails)
		return again(8, a, test, b, test)
	}},
	{"nothing-is-found", true, func(g *gen) [][]loopguard.Call {
		return many(30, func(i int) loopguard.Call {
			return shell(fmt.Sprintf("find / -name '*%s%d*'", g.word(), i), "exit status 0\n(no output)")
		})
	}},
	{"restart-loop", true, func(g *gen) [][]loopguard.Call {
		svc := g.word()
		return many(16+g.IntN(8), func(i int) loopguard.Call {
			if i%2 == 0 {
				return shell("systemctl restart "+svc, "exit status 0\n(no output)")
			}
			return shell("systemctl status "+svc, fmt.Sprintf("exit status 3\n%s %s[%d]: failed with pid %d after %dms", g.clock(), svc, g.IntN(90000), g.IntN(90000), g.IntN(900)))
		})
	}},
	{"plans-and-lists", true, func(g *gen) [][]loopguard.Call {
		list := loopguard.Call{Tool: toolname.FileList, Arguments: "{}", Result: g.prose(3)}
		return many(30, func(i int) loopguard.Call {
			if i%2 == 0 {
				return loopguard.Call{Tool: toolname.UpdatePlan, Arguments: arguments("items", fmt.Sprint(i)), Result: "plan recorded"}
			}
			return list
		})
	}},
	{"connection-refused", true, func(g *gen) [][]loopguard.Call {
		return many(10+g.IntN(6), func(i int) loopguard.Call {
			return shell(fmt.Sprintf("curl -s%s http://db:5432/%s", g.pick("", "v", "S", "f"), g.word()), "exit status 7\ncurl: (7) failed to connect to db port 5432: Connection refused")
		})
	}},
	{"a-counter-hides-it", true, func(g *gen) [][]loopguard.Call {
		return many(20, func(i int) loopguard.Call {
			return shell(fmt.Sprintf("./run.sh --try %d", i), fmt.Sprintf("exit status 0\nrequest id %d: still wrong", g.IntN(1e9)))
		})
	}},
	// At work.
	{"edit-and-test", false, func(g *gen) [][]loopguard.Call {
		fails := g.testFails()
		var out [][]loopguard.Call
		for range 6 + g.IntN(6) {
			out = append(out, one(g.edit()), one(shell("go test ./...", fails)))
		}
		return append(out, one(shell("go test ./...", "exit status 0\nok")))
	}},
	{"reads-widely", false, func(g *gen) [][]loopguard.Call {
		return many(25+g.IntN(15), func(int) loopguard.Call { return g.read() })
	}},
	{"counts-in-logs", false, func(g *gen) [][]loopguard.Call {
		return many(20, func(i int) loopguard.Call {
			return shell(fmt.Sprintf("grep -c %s app.log.%d", g.word(), i), fmt.Sprintf("exit status 0\n%d", g.IntN(400)))
		})
	}},
	{"fails-until-it-works", false, func(g *gen) [][]loopguard.Call {
		return many(6, func(i int) loopguard.Call { return shell(fmt.Sprintf("make part%d", i), g.testFails()) })
	}},
	{"two-errors-then-another-way", false, func(g *gen) [][]loopguard.Call {
		failed := shell("apt-get install "+g.word(), "exit status 100\nE: unable to locate package")
		return [][]loopguard.Call{one(failed), one(failed), one(shell("apt-get update", "exit status 0\n"+g.prose(2))), one(shell("apt-get install x", "exit status 0\ndone"))}
	}},
	{"watches-something-grow", false, func(g *gen) [][]loopguard.Call {
		return many(15, func(i int) loopguard.Call {
			return shell("sleep 10; ls -l out.bin", fmt.Sprintf("exit status 0\n-rw-r--r-- 1 root %d out.bin", 1000*(i+1)+g.IntN(900)))
		})
	}},
	{"looks-between-edits", false, func(g *gen) [][]loopguard.Call {
		var out [][]loopguard.Call
		for range 10 {
			out = append(out, one(shell("git status --short", "exit status 0\n M a.go")), one(g.edit()))
		}
		return out
	}},
	{"works-through-a-list", false, func(g *gen) [][]loopguard.Call {
		return again(20, changed(shell("./migrate-next.sh", "exit status 0\none row migrated")))
	}},
	{"reads-in-pieces", false, func(g *gen) [][]loopguard.Call {
		f := g.file()
		return many(20, func(i int) loopguard.Call {
			return loopguard.Call{Tool: toolname.FileRead, Arguments: arguments("path", f, "offset", i*65536), Result: g.prose(4)}
		})
	}},
	{"notes-while-it-waits", false, func(g *gen) [][]loopguard.Call {
		status := shell("gh run view 7", "exit status 0\nin progress")
		var out [][]loopguard.Call
		for range 5 {
			out = append(out, one(loopguard.Call{Tool: toolname.ManageScratchpad, Arguments: arguments("append", "it still runs"), Result: "added"}), one(status))
		}
		return append(out, one(shell("gh run view 7", "exit status 0\nsuccess")))
	}},
	{"tries-a-flaky-test", false, func(g *gen) [][]loopguard.Call {
		return again(5, shell("go test -run Flaky -count=1 ./...", "exit status 0\nok"))
	}},
	{"three-errors-then-mends-it", false, func(g *gen) [][]loopguard.Call {
		failed := shell("make", "exit status 2\nmake: *** no rule to make target all")
		return append(again(3, failed), one(g.edit()), one(shell("make", "exit status 0\nbuilt")))
	}},
	{"polls-a-slow-build", false, func(g *gen) [][]loopguard.Call {
		n := 5 + 2*g.IntN(5) // the longest look stuck
		return append(again(n, shell("sleep 60; cat build.status", "exit status 0\nrunning")), one(shell("cat build.status", "exit status 0\ndone")))
	}},
	{"waits-longer-and-longer", false, func(g *gen) [][]loopguard.Call {
		status := shell("kubectl get pods", "exit status 0\nweb-0 0/1 ContainerCreating")
		var out [][]loopguard.Call
		for i := range 12 + g.IntN(8) {
			out = append(out, []loopguard.Call{{Tool: toolname.Wait, Arguments: arguments("seconds", 10*(i+1)), Result: fmt.Sprintf("waited %ds", 10*(i+1))}}, one(status))
		}
		return append(out, one(shell("kubectl get pods", "exit status 0\nweb-0 1/1 Running")))
	}},
	{"sleeps-longer-and-longer", false, func(g *gen) [][]loopguard.Call {
		return append(many(12+g.IntN(8), func(i int) loopguard.Call {
			return shell(fmt.Sprintf("sleep %d; gh run view 7 --json status", 5*(i+1)), "exit status 0\n{\"status\":\"in_progress\"}")
		}), one(shell("gh run view 7 --json status", "exit status 0\n{\"status\":\"completed\"}")))
	}},
	{"reads-a-quiet-job", false, func(g *gen) [][]loopguard.Call {
		id := "job_" + g.word()
		return append(many(15+g.IntN(10), func(i int) loopguard.Call {
			return loopguard.Call{
				Tool: toolname.JobOutput, Arguments: arguments("job", id, "wait_seconds", 30),
				Result: fmt.Sprintf("%s has run for %dm\n(no new output)\n[bytes 512 to 512 of its output]", id, i/2+1),
			}
		}), one(loopguard.Call{Tool: toolname.JobOutput, Arguments: arguments("job", id), Result: id + " has ended: exit status 0\nbuilt\n[bytes 512 to 518 of its output]"}))
	}},
	{"waits-for-a-job", false, func(g *gen) [][]loopguard.Call {
		id := "job_" + g.word()
		return many(12+g.IntN(6), func(int) loopguard.Call {
			return loopguard.Call{Tool: toolname.Wait, Arguments: arguments("seconds", 300, "job", id), Result: "waited 5m, but not until " + id + " ends"}
		})
	}},
}
