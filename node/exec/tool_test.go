package exec_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A request that a rule leaves to http_post is made by the command of that tool's call, and not
// by the same program in a command of the agent's. Other commands of the jail read neither the
// secret of the call nor the memory that has it.
func TestTheCommandOfAToolMakesItsRequest(t *testing.T) {
	oneCommand(t)
	t.Parallel()
	n, known := withEgress(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	port := outside(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/deploy" {
			arrived <- struct{}{}
			<-goOn
		}
		_, _ = io.WriteString(w, "done by "+r.Method)
	}))
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	known.set("api.test", "127.0.0.1")
	id := n.ensure(func(s *nodev1.JailSpec) {
		s.Egress = &nodev1.Egress{Rules: []*nodev1.Egress_Rule{
			{Host: "api.test", Ports: []uint32{uint32(number)}, Http: []string{"tool http_post POST /deploy"}}, {Host: "127.0.0.1", Ports: []uint32{uint32(number)}},
		}}
	})
	arguments := `{"url":"http://api.test:` + port + `/deploy","body":"x"}`
	post := func(tool string) *nodev1.ExecSpec {
		spec := command(id, nodelink.SkillPath, "--json", toolname.HTTPPost, "-")
		spec.Stdin, spec.Tool, spec.Timeout = []byte(arguments), tool, durationpb.New(time.Minute)
		return spec
	}
	_, text := n.run(post(""))
	assert.Contains(t, text, "use the tool http_post")
	_, text = n.run(post(toolname.HTTPPut))
	assert.Contains(t, text, "use the tool http_post")

	made := make(chan string)
	go func() {
		_, text := n.run(post(toolname.HTTPPost))
		made <- text
	}()
	<-arrived
	_, text = n.run(command(id, "/bin/sh", "-c", `for p in /proc/[0-9]*; do [ $p = /proc/$$ ] && continue; case $(tr '\0' ' ' <$p/cmdline 2>/dev/null) in *deckhand-skill*)
		echo found; cat $p/environ $p/maps $p/mem >/dev/null && echo read; cat $p/cmdline; esac; done 2>&1`))
	assert.Contains(t, text, "found")
	assert.NotContains(t, text, "read")
	assert.Contains(t, text, "ermission denied")
	goOn <- struct{}{}
	assert.Contains(t, <-made, "done by POST")
}
