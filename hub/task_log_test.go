package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The log of a task has the output of all its commands. It grows at its end only, is read in
// parts by offsets that hold, and has a fixed length when the task has ended.
func TestTheLogOfATaskByREST(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("free", "---\nname: free\ndescription: For tests.\nprovider: script\nscript: free.yaml\nlimits: {iterations: 5}\nmode: autonomous\ntools: [shell_exec]\n---\nGo on.\n")
	lease := r.begin(r.submit("free").GetId(), 1)
	read := func(rng string) (*http.Response, string) {
		t.Helper()
		header := http.Header{}
		if rng != "" {
			header.Set("Range", rng)
		}
		res, body := restCall(t, http.MethodGet, r.URL()+"/v1/tasks/"+lease.GetTaskId()+"/log", r.AdminToken, nil, header)
		return res, string(body)
	}
	res, body := read("")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Empty(t, body)
	res, body = read("bytes=0-")
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.StatusCode, "nothing yet")
	problem(t, res, []byte(body))
	run := func(turn int32) string {
		t.Helper()
		r.turn(lease, turn)
		step, err := r.propose(lease, turn, 0, "shell_exec", `{"command":"true"}`)
		require.NoError(t, err)
		done, err := r.execute(lease, step.GetId())
		require.NoError(t, err)
		return fmt.Sprintf("==> step %d: shell_exec, %s <==\ndid it as %s\n", done.GetNumber(), done.GetStartedAt().AsTime().UTC().Format(time.RFC3339), done.GetId())
	}
	want := run(1)
	res, body = read("")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, want, body)
	res, body = read("bytes=5-")
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, want[5:], body)
	require.Equal(t, fmt.Sprintf("bytes 5-%d/*", len(want)-1), res.Header.Get("Content-Range"), "the length is not known")
	before := len(want)
	want += "\n" + run(2)
	res, body = read(fmt.Sprintf("bytes=%d-", before))
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, want[before:], body, "what there was stays as it is")

	r.finish(lease)
	res, body = read("")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, want, body)
	require.EqualValues(t, len(want), res.ContentLength)
	for from := range len(want) {
		res, body = read(fmt.Sprintf("bytes=%d-%d", from, from+2))
		require.Equal(t, http.StatusPartialContent, res.StatusCode)
		require.Equal(t, want[from:min(len(want), from+3)], body)
		require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", from, min(len(want), from+3)-1, len(want)), res.Header.Get("Content-Range"))
	}
	res, body = read(fmt.Sprintf("bytes=%d-", len(want)))
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.StatusCode)
	problem(t, res, []byte(body))
	res, body = restCallText(t, r, "/v1/tasks/"+lease.GetTaskId()+"/log?follow=true")
	require.Equal(t, http.StatusBadRequest, res.StatusCode, "%s", body)

	// What a person ran on the node, likewise.
	exec, err := startExec(t, r.user, onJail("free", "sh", "-c", "true"))
	require.NoError(t, err)
	ended(t, r.user, exec.GetId())
	output := "did it as " + exec.GetId() + "\n"
	res, body = restCallText(t, r, "/v1/node-execs/"+exec.GetId()+"/log")
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, output, body)
	require.EqualValues(t, len(output), res.ContentLength)
}

func restCallText(t *testing.T, r *rig, path string) (*http.Response, string) {
	t.Helper()
	res, body := restCall(t, http.MethodGet, r.URL()+path, r.AdminToken, nil, nil)
	return res, string(body)
}

// The log of a step whose command goes on in the background is not whole when its call has
// ended: neither for who reads the step's log, nor in that of the task.
func TestTheLogOfAJobIsWholeWhenItHasEnded(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("free", "---\nname: free\ndescription: For tests.\nprovider: script\nscript: free.yaml\nlimits: {iterations: 5}\nmode: autonomous\ntools: [shell_exec]\n---\nGo on.\n")
	lease := r.begin(r.submit("free").GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	whole := "did it as " + step.GetId() + "\n"
	// As if the call had ended when three bytes were there, and the command gone on.
	r.exec(`UPDATE steps SET log_bytes = 3 WHERE id = '` + step.GetId() + `'`)
	r.exec(`INSERT INTO jobs (id, org_id, task_id, step_id, exec_id, node_id, jail_id, command)
		SELECT 'job_' || s.id, s.org_id, s.task_id, s.id, s.exec_id, 'node_away', s.jail_id, 'true' FROM steps s WHERE s.id = '` + step.GetId() + `'`)
	res, body := restCallText(t, r, "/v1/steps/"+step.GetId()+"/log")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, whole, body)
	require.EqualValues(t, -1, res.ContentLength, "it may grow")
	_, body = restCallText(t, r, "/v1/tasks/"+lease.GetTaskId()+"/log")
	require.Empty(t, body)
	r.exec(fmt.Sprintf(`UPDATE jobs SET state = 'ended', ended_at = now(), stored_at = now(), outcome = '{"log_bytes": %d}' WHERE step_id = '%s'`, len(whole), step.GetId()))
	res, _ = restCallText(t, r, "/v1/steps/"+step.GetId()+"/log")
	require.EqualValues(t, len(whole), res.ContentLength)
	_, body = restCallText(t, r, "/v1/tasks/"+lease.GetTaskId()+"/log")
	require.Contains(t, body, whole)
}

// What a cancelled task has written is known when its node has said how its commands ended, and
// comes behind what was whole before. Its log has a length although a call had no command, and
// one that breaks off is not taken for a whole one.
func TestTheLogOfACancelledTaskBecomesWhole(t *testing.T) {
	t.Parallel()
	started, killed := make(chan string, 1), make(chan string, 1)
	r := newRig(t, hubtest.Shared(t), blocking(started, killed))
	task, _, step := r.sleeping()
	<-started
	insert := func(number int, tool, state string) string {
		id := fmt.Sprintf("step_more_%d_%s", number, step.GetId())
		r.exec(fmt.Sprintf(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, state, node_id, jail_id, started_at, finished_at)
			SELECT '%s', org_id, task_id, %d, turn, %d, 'c', attempt, '%s', category, '{}', arguments_sealed, arguments_digest, '%s', node_id, jail_id, started_at, CASE '%[5]s' WHEN 'started' THEN NULL ELSE started_at END
			FROM steps WHERE id = '%[6]s'`, id, number, number, tool, state, step.GetId()))
		return id
	}
	insert(2, "node_exec_many", "started")
	path := "/v1/tasks/" + task.GetId() + "/log"
	r.node.Stop()
	require.Eventually(t, func() bool {
		res, _ := restCallText(t, r, "/v1/steps/"+step.GetId()+"/log")
		return res.StatusCode == http.StatusServiceUnavailable
	}, time.Minute, 20*time.Millisecond, "the node to be away")
	r.cancel(task.GetId())
	// A job of it ends before the node says how the cancelled command did.
	job := insert(3, "shell_exec", "succeeded")
	r.exec(`INSERT INTO jobs (id, org_id, task_id, step_id, exec_id, node_id, jail_id, command, state, ended_at, stored_at, outcome)
		SELECT 'job_' || id, org_id, task_id, id, exec_id, node_id, jail_id, 'true', 'ended', now(), clock_timestamp(), '{"log_bytes": 5}' FROM steps WHERE id = '` + job + `'`)
	at := r.step(step.GetId()).GetStartedAt().AsTime().UTC().Format(time.RFC3339)
	want := fmt.Sprintf("==> step 3: shell_exec, %s <==\n", at)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+r.AdminToken)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.Error(t, err, "it ends in the middle")
	require.Equal(t, want, string(body))

	require.NoError(t, r.node.Start(t.Context()))
	// What the node does not have is NUL bytes.
	want += strings.Repeat("\x00", 5) + fmt.Sprintf("\n==> step 1: shell_exec, %s <==\nhalf", at)
	read := func() (length int64, text string) {
		res, text := restCallText(t, r, path)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
		return res.ContentLength, text
	}
	require.Eventually(t, func() bool {
		res, _ := restCallText(t, r, "/v1/steps/"+step.GetId()+"/log")
		return res.StatusCode == http.StatusOK && res.ContentLength == 4
	}, time.Minute, 20*time.Millisecond, "the node to say how the command ended")
	length, text := read()
	require.EqualValues(t, len(want), length)
	require.Equal(t, want, text)
	r.node.Stop()
	do(t, r.user.Nodes.RevokeNode, &deckhandv1.RevokeNodeRequest{NodeId: "sim"})
	length, text = read()
	require.EqualValues(t, len(want), length)
	require.Equal(t, strings.ReplaceAll(want, "half", "\x00\x00\x00\x00"), text, "a node that does not come back leaves a gap")
}

// The figures of an agent are those of its jails, with what their nodes have kept.
func TestTheFiguresOfAnAgent(t *testing.T) {
	t.Parallel()
	first, second, other := int64(1), int64(2), int64(3)
	samples := []*nodev1.TelemetrySample{
		{Time: stamp(70), Jails: []*nodev1.Usage{{CpuMillis: &first}, {JailId: "jail_other", CpuMillis: &other}}},
		{Time: stamp(85), Jails: []*nodev1.Usage{{CpuMillis: &second}}},
	}
	r := newRigOn(t, hubtest.Shared(t), kept(samples))
	got := func(ref string) []*deckhandv1.JailTelemetry {
		t.Helper()
		return do(t, r.user.Telemetry.GetAgentTelemetry, &deckhandv1.GetAgentTelemetryRequest{AgentId: ref}).GetJails()
	}
	require.Empty(t, got("walker"), "it has no jail yet")
	r.settled("walker")
	jail := r.sql("SELECT jail_id FROM tasks WHERE agent_id = $1 LIMIT 1", r.agent("walker").GetId())
	for _, s := range samples {
		s.GetJails()[0].JailId = jail
	}
	jails := got("walker")
	require.Len(t, jails, 1)
	require.Equal(t, jail, jails[0].GetJailId())
	require.Equal(t, "sim", jails[0].GetNodeName())
	require.Empty(t, jails[0].GetProblem())
	require.Len(t, jails[0].GetSamples(), 2)
	require.EqualValues(t, 70, jails[0].GetSamples()[0].GetTime().GetSeconds())
	require.Equal(t, first, jails[0].GetSamples()[0].GetUsage().GetCpuMillis())
	require.Equal(t, second, jails[0].GetSamples()[1].GetUsage().GetCpuMillis())
	require.Equal(t, "walker", jails[0].GetSamples()[0].GetUsage().GetAgentName())
	res, body := restCallText(t, r, "/v1/agents/walker/telemetry")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, body, `"cpuMillis":"2"`)
	r.node.Stop()
	require.Eventually(t, func() bool { return got("walker")[0].GetProblem() != "" }, time.Minute, 20*time.Millisecond, "a node that is not there is named")
}

func stamp(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }

// kept is a node that has kept samples.
func kept(samples []*nodev1.TelemetrySample) nodetest.Config {
	return nodetest.Config{Telemetry: func() *nodev1.TelemetrySample { return samples[0] }, Kept: samples}
}
