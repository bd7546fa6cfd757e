package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SealedColumn is one of what is sealed, and Object the SQL of what each value is
// bound to, as its owner says it to the vault.
type SealedColumn struct{ Table, Name, Object string }

// SealedColumns are all of them. A test holds that none is missing.
var SealedColumns = []SealedColumn{
	{"cluster_secrets", "sealed", "'secret ' || name"},
	{"credentials", "sealed", "CASE WHEN login THEN 'login ' ELSE 'credential ' END || provider || ' of ' || org_id || ' at ' || base_url"},
	{"triggers", "sealed", "'secret of trigger ' || id || ' of ' || org_id"},
	{"triggers", "sealed_before", "'secret of trigger ' || id || ' of ' || org_id"},
	{"destinations", "sealed", "'secret of destination ' || id || ' of ' || org_id"},
	{"registries", "sealed", "'password of registry ' || host || ' of ' || org_id"},
	{"egress_credentials", "sealed", "'egress credential ' || name || ' of ' || org_id"},
	{"egress_credentials", "refresh_sealed", "'egress credential ' || name || ' of ' || org_id"},
	{"jail_authorities", "sealed", "'key of authority ' || id || ' of ' || org_id"},
	{"node_execs", "spec_sealed", "id"},
	{"turns", "sealed", "'turn ' || turn || ' of ' || task_id"},
	{"steps", "arguments_sealed", "id"},
	{"steps", "changed_sealed", "'changed arguments of ' || id"},
	{"inbox_items", "reply_sealed", "id"},
	{"inbox_attachments", "content_sealed", "'attachment ' || number || ' of ' || item_id"},
	{"task_browsers", "key_sealed", "'key of the browser of ' || task_id"},
	{"browser_sessions", "sealed", "'browser session ' || number || ' of ' || task_id"},
	{"idempotency_keys", "sealed", "'response of ' || id || ' of ' || org_id"},
}

// Sealed is an encrypted value with its place.
type Sealed struct {
	// Row identifies its row until the row is written.
	Row    string
	Object string
	Value  []byte
	// Again is the value as it is to be.
	Again []byte
}

// The statements are built here, since one serves every table; their parts are constants.
// A row is identified by its place: one that moves is found at its new place by the next
// scan.

// other are the rows that another key has sealed. Retention leaves empty values behind.
func (c SealedColumn) other(prefix string) string {
	return c.Name + " IS NOT NULL AND octet_length(" + c.Name + ") > 0 AND substring(" + c.Name + " FROM 1 FOR 5) <> " + prefix
}

// SealedOtherwise returns what lies in some blocks of a table and does not begin
// with a prefix of five bytes.
func (s *Store) SealedOtherwise(ctx context.Context, c SealedColumn, prefix []byte, fromBlock, toBlock int64) ([]Sealed, error) {
	rows, err := s.pool.Query(ctx, "SELECT ctid::text, "+c.Object+", "+c.Name+" FROM "+c.Table+
		" WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND "+c.other("$3"), fmt.Sprintf("(%d,0)", fromBlock), fmt.Sprintf("(%d,0)", toBlock), prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (out Sealed, err error) {
		err = row.Scan(&out.Row, &out.Object, &out.Value)
		return out, err
	})
}

// Reseal writes re-encrypted values whose row is unchanged, and returns how many those
// are.
func (s *Store) Reseal(ctx context.Context, c SealedColumn, values []Sealed) (written int64, err error) {
	var batch pgx.Batch
	for _, v := range values {
		batch.Queue("UPDATE "+c.Table+" SET "+c.Name+" = $3 WHERE ctid = $1::text::tid AND "+c.Name+" = $2", v.Row, v.Value, v.Again).
			Exec(func(tag pgconn.CommandTag) error {
				written += tag.RowsAffected()
				return nil
			})
	}
	err = s.pool.SendBatch(ctx, &batch).Close()
	return written, err
}

// AnySealedOtherwise reports whether any row of a table does not begin with a prefix
// of five bytes.
func (s *Store) AnySealedOtherwise(ctx context.Context, c SealedColumn, prefix []byte) (yes bool, err error) {
	err = s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+c.Table+" WHERE "+c.other("$1")+")", prefix).Scan(&yes)
	return yes, err
}
