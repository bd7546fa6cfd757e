package store

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// readOnly is read_only_sql_transaction, the SQLSTATE of a write on a standby.
const readOnly = "25006"

// goingDown are the SQLSTATEs of a server that ends, has just begun, or became a standby:
// admin_shutdown, crash_shutdown, cannot_connect_now, too_many_connections,
// read_only_sql_transaction.
var goingDown = []string{"57P01", "57P02", "57P03", "53300", readOnly}

// Gone reports whether an error is the database's absence: it cannot be reached, or
// ends, or starts. Nothing is wrong with what was asked, which may be asked
// again; whether a commit took place is not known.
func Gone(err error) bool {
	var connecting *pgconn.ConnectError
	var pg *pgconn.PgError
	var network net.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &connecting):
		return true
	case errors.As(err, &pg):
		return strings.HasPrefix(pg.Code, "08") || slices.Contains(goingDown, pg.Code)
	}
	return pgconn.SafeToRetry(err) || errors.As(err, &network) && !network.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// undefinedTable is the SQLSTATE of a table that does not exist.
const undefinedTable = "42P01"

// queryCanceled is the SQLSTATE of a statement that the server ended for its time.
const queryCanceled = "57014"

// TookTooLong reports whether an error is a statement's that took longer than the
// statement_timeout of its transaction.
func TookTooLong(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == queryCanceled
}
