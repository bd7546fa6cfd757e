package hub_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
)

// hostile are texts that mean something where they are taken for code, a path,
// a pattern or a header.
func hostile() map[string]string {
	// Random, so that it is as long in an index as it is here.
	long := make([]byte, 100_000)
	letters := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	for i := range long {
		long[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[letters.IntN(64)]
	}
	return map[string]string{
		"SQL condition": `' OR 1=1 --`,
		"SQL statement": `'; DROP TABLE tasks; --`,
		"SQL pattern":   `%`,
		"SQL wildcard":  `_`,
		"SQL escape":    `\`,
		"NUL":           "a\x00b",
		"long":          string(long[:4000]), // longer than an index of PostgreSQL takes
		"very long":     string(long),
		"relative path": `../../etc/passwd`,
		"absolute path": `/etc/passwd`,
		"encoded path":  `..%2f..%2fetc%2fpasswd`,
		"backslashes":   `..\..\etc\passwd`,
		"header":        "x\r\nSet-Cookie: x=1\r\nX-Injected: 1",
		"escape code":   "\x1b]0;x\x07",
	}
}

// place is a field in a request: the names that lead to it.
type place struct {
	names []string
	field protoreflect.FieldDescriptor
}

func (p place) String() string { return strings.Join(p.names, ".") }

// textPlaces returns the places of a message that hold text, down to a depth.
func textPlaces(m protoreflect.MessageDescriptor, before []string, depth int) []place {
	var out []place
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		names := append(slices.Clone(before), string(f.Name()))
		switch {
		case f.IsMap():
			out = append(out, place{names, f})
		case f.Kind() == protoreflect.StringKind:
			out = append(out, place{names, f})
		case f.Kind() == protoreflect.MessageKind && f.Message().FullName() == "google.protobuf.Struct":
			out = append(out, place{names, f})
		case f.Kind() == protoreflect.MessageKind && f.Message().ParentFile().Package() != "google.protobuf" && depth > 0:
			out = append(out, textPlaces(f.Message(), names, depth-1)...)
		}
	}
	return out
}

// with returns a copy of a request that has a text at a place.
func (p place) with(m protoreflect.MessageDescriptor, body map[string]any, text string) map[string]any {
	return put(m, body, p.names, text)
}

func put(m protoreflect.MessageDescriptor, body map[string]any, names []string, text string) map[string]any {
	out := maps.Clone(body)
	if out == nil {
		out = map[string]any{}
	}
	f := m.Fields().ByName(protoreflect.Name(names[0]))
	if of := f.ContainingOneof(); of != nil {
		for i := range of.Fields().Len() {
			if other := of.Fields().Get(i); other != f {
				delete(out, string(other.Name()))
			}
		}
	}
	if len(names) > 1 {
		below, _ := out[names[0]].(map[string]any)
		if list, ok := out[names[0]].([]any); ok && len(list) > 0 {
			below, _ = list[0].(map[string]any)
		}
		value := put(f.Message(), below, names[1:], text)
		if out[names[0]] = value; f.IsList() {
			out[names[0]] = []any{value}
		}
		return out
	}
	switch {
	case f.IsMap() && f.MapValue().Kind() == protoreflect.StringKind:
		out[names[0]] = map[string]any{text: text}
	case f.IsMap():
		out[names[0]] = map[string]any{text: nil}
	case f.Kind() == protoreflect.MessageKind:
		out[names[0]] = map[string]any{text: text}
	case f.IsList():
		out[names[0]] = []string{text}
	default:
		out[names[0]] = text
	}
	return out
}

// said is what a hub answered.
type said struct {
	code   string // "" for none
	text   string
	header http.Header
}

// send sends a body, in a stream's envelope where it is one.
func send(ctx context.Context, client *http.Client, url, token string, m protoreflect.MethodDescriptor, data []byte, codec string) (said, error) {
	kind, streams := "application/"+codec, m.IsStreamingServer() || m.IsStreamingClient()
	if streams {
		kind = "application/connect+" + codec
		data = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...) //nolint:gosec // small
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path(m), bytes.NewReader(data))
	if err != nil {
		return said{}, err
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return said{}, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return said{}, err
	}
	out := said{text: string(all), header: res.Header}
	var refused struct{ Code string }
	if !streams {
		if res.StatusCode != http.StatusOK {
			if err := json.Unmarshal(all, &refused); err != nil {
				return out, fmt.Errorf("%d: %q: %w", res.StatusCode, all, err)
			}
		}
		out.code = refused.Code
		return out, nil
	}
	for len(all) >= 5 {
		n := binary.BigEndian.Uint32(all[1:])
		if all[0]&2 != 0 {
			var end struct{ Error struct{ Code string } }
			if err := json.Unmarshal(all[5:5+n], &end); err != nil {
				return out, err
			}
			out.code = end.Error.Code
		}
		all = all[5+n:]
	}
	return out, nil
}

// rows returns how many rows each table has of an organisation, at one moment.
func rows(t *testing.T, db *pgx.Conn, orgID string) map[string]int {
	t.Helper()
	found, err := db.Query(t.Context(), `SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND c.column_name = 'org_id' AND t.table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 20)
	tx, err := db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	out := map[string]int{}
	for _, table := range tables {
		var n int
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()+" WHERE org_id = $1", orgID).Scan(&n))
		out[table] = n
	}
	// The hub seals entries of the record as it goes.
	out["audit"] = out["audit_unsealed"] + out["audit_chain"]
	delete(out, "audit_unsealed")
	return out
}

// enders are the methods of a worker that end its lease.
var enders = []string{"ReleaseTask", "YieldTask", "FinishTask"}

// people are the tables into which only what somebody asks for writes.
var people = []string{"access_rules", "agent_versions", "agents", "allow_rules", "allowed_models", "api_tokens", "call_rates", "credentials", "deliveries",
	"destinations", "holds", "inbox_items", "join_tokens", "login_codes", "node_execs", "node_locks", "nodes", "plans", "policies", "prices", "steps",
	"task_inputs", "task_messages", "tasks", "team_members", "teams", "triggers", "turns", "users", "workers"}

// Each text of each request is data. No value of one is taken for SQL, for a
// path, for a pattern or for a header; what cannot be taken is refused by name,
// and is never a fault of the hub.
func TestHostileTextIsData(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s, err := store.Open(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	victim, own, leased := organisation(t, h, s, "victim"), organisation(t, h, s, "own"), organisation(t, h, s, "leased")
	workerToken, err := auth.NewTokens(s).Create(t.Context(), leased.org, auth.Worker, "", "w", 0)
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), h.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	before := rows(t, db, victim.org)
	values := hostile()
	kinds := slices.Sorted(maps.Keys(values))
	plain, streaming := &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Minute}, &http.Client{Timeout: 2 * time.Minute}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	streaming.Transport = &http.Transport{Protocols: protocols}
	t.Cleanup(plain.CloseIdleConnections)
	t.Cleanup(streaming.CloseIdleConnections)
	sent, ended, taken := 0, 0, map[string]bool{}

	// What ends a lease comes last: the others need it.
	methods := procedures()
	slices.SortStableFunc(methods, func(a, b protoreflect.MethodDescriptor) int {
		last := func(m protoreflect.MethodDescriptor) int { return slices.Index(enders, string(m.Name())) }
		return last(a) - last(b)
	})
	for _, m := range methods {
		rule, _ := auth.RuleOf(path(m))
		token, client, base := own.token, plain, own.request(m.Input())
		switch {
		case rule.Public:
			token = ""
		case rule.Kind == auth.Worker:
			token, base = workerToken, leased.request(m.Input())
		case rule.Operator:
			token = h.AdminToken
		}
		if m.IsStreamingClient() {
			client = streaming
		}
		if m.Name() == "ExecuteStep" {
			base["step_id"] = "step_none" // it waits for the node of one that there is
		}
		some := kinds
		if m.Name() == "SetPassword" || m.Name() == "CreateSession" {
			some = []string{"SQL condition", "NUL", "very long"} // a password takes its time
		}
		began := time.Now()
		try := func(what string, data []byte, codec string) {
			sent++
			got, err := send(t.Context(), client, h.URL(), token, m, data, codec)
			if !assert.NoError(t, err, what) {
				return
			}
			taken[got.code] = true
			wrong := []string{"internal", "unknown", "data_loss"}
			if !rule.Public {
				wrong = append(wrong, "unauthenticated") // the walk has locked itself out
			}
			assert.NotContains(t, wrong, got.code, "%s: %s", what, short(got.text))
			assert.Empty(t, got.header.Get("X-Injected"), what)
			for _, cookie := range got.header.Values("Set-Cookie") {
				assert.True(t, strings.HasPrefix(cookie, auth.CookieName+"="), "%s: %s", what, cookie)
			}
			assert.NotContains(t, got.text, "root:x:0:0", what)
			for _, id := range []string{victim.org, victim.agent, victim.task, victim.step, victim.node, victim.worker, victim.exec, victim.item, victim.hold,
				victim.trigger, victim.delivery, victim.destination, victim.notification, victim.rule, victim.session, victim.user, victim.team, victim.apiToken} {
				assert.NotContains(t, got.text, id, what)
			}
		}
		for _, at := range textPlaces(m.Input(), nil, 3) {
			if slices.Contains(enders, string(m.Name())) && rule.Kind == auth.Worker {
				// Each place has a lease of its own.
				ended++
				leased = organisation(t, h, s, fmt.Sprint("leased-", ended))
				token, err = auth.NewTokens(s).Create(t.Context(), leased.org, auth.Worker, "", "w", 0)
				require.NoError(t, err)
				base, some = leased.request(m.Input()), []string{"NUL", "header", "SQL statement"}
			}
			for _, kind := range some {
				data, err := json.Marshal(at.with(m.Input(), base, values[kind]))
				require.NoError(t, err)
				try(fmt.Sprintf("%s.%s: %s", m.Name(), at, kind), data, "json")
			}
			// What is no UTF-8 has a wire only in binary.
			if at.field.Kind() == protoreflect.StringKind && len(at.names) == 1 {
				data := protowire.AppendString(protowire.AppendTag(nil, at.field.Number(), protowire.BytesType), "\xff\xfe\x00")
				try(fmt.Sprintf("%s.%s: no UTF-8", m.Name(), at), data, "proto")
			}
		}
		if d := time.Since(began); d > time.Second {
			t.Logf("%s took %s", m.Name(), d)
		}
	}
	t.Logf("%d requests, answered by %v", sent, slices.Sorted(maps.Keys(taken)))
	require.Greater(t, sent, 2000)
	require.True(t, taken[""], "some were taken, as the data they are")
	require.True(t, taken["invalid_argument"])

	after := rows(t, db, victim.org)
	for table, n := range before {
		assert.GreaterOrEqual(t, after[table], n, "rows of another organisation in %s", table)
		if slices.Contains(people, table) {
			assert.Equal(t, n, after[table], "rows of another organisation in %s", table)
		}
	}
}

func short(text string) string { return text[:min(len(text), 300)] }
