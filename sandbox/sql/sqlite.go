package sql

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"lockstep/sandbox"
)

const (
	memorySQLite = 8 << 20 // most memory of one connection
	pagesSQLite  = 1024    // of 4 KiB: most of one database
)

// A sqliteStore keeps databases in memory. Its connections share nothing but
// the pages of their database, and lock those as they would lock a file.
type sqliteStore struct {
	bounds  bounds
	version string
	prefix  string
	made    atomic.Int64
}

func openSQLite(bounds bounds) (*sqliteStore, error) {
	s := &sqliteStore{bounds: bounds}
	s.prefix = fmt.Sprintf("lockstep%p-", s)
	c, err := sqlite3.Open(":memory:")
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	defer c.Close()
	stmt, _, err := c.Prepare("SELECT sqlite_version()")
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	defer stmt.Close()
	if stmt.Step() {
		s.version = stmt.ColumnText(0)
	}
	return s, stmt.Err()
}

func (s *sqliteStore) engine() sandbox.Engine {
	return sandbox.Engine{Name: "sqlite", Version: s.version, Mode: sandbox.Embedded}
}

func (s *sqliteStore) close() {}

func (s *sqliteStore) create(context.Context) (database, error) {
	name := s.prefix + strconv.FormatInt(s.made.Add(1), 10)
	memdb.Create(name, nil)
	return &sqliteDatabase{name: name, bounds: s.bounds}, nil
}

// A sqliteDatabase is a database in memory.
type sqliteDatabase struct {
	name   string
	bounds bounds
}

func (d *sqliteDatabase) drop() { memdb.Delete(d.name) }

func (d *sqliteDatabase) connect(ctx context.Context) (session, error) {
	c, err := sqlite3.OpenContext(sqlite3.WithMaxMemory(ctx, memorySQLite), "file:/"+d.name+"?vfs=memdb")
	if err != nil {
		return nil, fmt.Errorf("%w: open SQLite: %w", sandbox.ErrDown, err)
	}
	conn := &sqliteConn{c: c, bounds: d.bounds}
	if err := conn.restrict(); err != nil {
		conn.close()
		return nil, fmt.Errorf("%w: restrict SQLite: %w", sandbox.ErrDown, err)
	}
	return conn, nil
}

// busySQLite is how long a statement waits for another connection's lock: longer
// than a statement takes, so that only a transaction which is left open keeps
// others out.
const busySQLite = 50 * time.Millisecond

// A sqliteConn is a connection to one.
type sqliteConn struct {
	c      *sqlite3.Conn
	bounds bounds
}

// restrict takes from a connection what no figure needs, whatever Check lets
// through.
func (s *sqliteConn) restrict() error {
	if err := s.c.BusyTimeout(busySQLite); err != nil {
		return err
	}
	if err := s.c.Exec(fmt.Sprintf("PRAGMA max_page_count=%d; PRAGMA temp_store=MEMORY", pagesSQLite)); err != nil {
		return err
	}
	if _, err := s.c.Config(sqlite3.DBCONFIG_DEFENSIVE, true); err != nil {
		return err
	}
	for limit, most := range map[sqlite3.LimitCategory]int{
		sqlite3.LIMIT_LENGTH:              s.bounds.bytes,
		sqlite3.LIMIT_SQL_LENGTH:          longest,
		sqlite3.LIMIT_COLUMN:              100,
		sqlite3.LIMIT_EXPR_DEPTH:          100,
		sqlite3.LIMIT_COMPOUND_SELECT:     10,
		sqlite3.LIMIT_VDBE_OP:             25_000,
		sqlite3.LIMIT_FUNCTION_ARG:        8,
		sqlite3.LIMIT_ATTACHED:            0,
		sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 100,
		sqlite3.LIMIT_VARIABLE_NUMBER:     0,
		sqlite3.LIMIT_TRIGGER_DEPTH:       0,
	} {
		s.c.Limit(limit, most)
	}
	return s.c.SetAuthorizer(authorizeSQLite)
}

// authorizeSQLite allows what the statements of a figure are made of.
func authorizeSQLite(action sqlite3.AuthorizerActionCode, _, name, _, _ string) sqlite3.AuthorizerReturnCode {
	switch action {
	case sqlite3.AUTH_SELECT, sqlite3.AUTH_READ, sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE,
		sqlite3.AUTH_CREATE_TABLE, sqlite3.AUTH_CREATE_INDEX, sqlite3.AUTH_TRANSACTION:
		return sqlite3.AUTH_OK
	case sqlite3.AUTH_FUNCTION:
		if name = strings.ToUpper(name); functions[name] || name == "LIKE" || name == "GLOB" {
			return sqlite3.AUTH_OK
		}
	}
	return sqlite3.AUTH_DENY
}

func (s *sqliteConn) close() {
	defer func() { _ = recover() }() // after its memory ran out
	s.c.Close()
}

func (s *sqliteConn) do(ctx context.Context, statement parsed) (value sandbox.Value, err error) {
	defer func() {
		// This is how the library says that a connection's memory has run out.
		if r := recover(); r != nil {
			if e, ok := r.(error); !ok || !strings.Contains(e.Error(), "out of memory") {
				panic(r)
			}
			value, err = nil, fmt.Errorf("%w: more than %d bytes of memory", sandbox.ErrTooMuch, memorySQLite)
		}
	}()
	s.c.SetInterrupt(ctx)
	stmt, tail, err := s.c.Prepare(statement.text)
	if err != nil {
		return replySQLite(err)
	}
	defer stmt.Close()
	if stmt == nil || strings.TrimSpace(tail) != "" {
		return nil, &sandbox.CommandError{Message: "not one statement: " + statement.text}
	}
	columns := stmt.ColumnCount()
	rows, size := []any{}, 0
	for stmt.Step() {
		row := make([]any, columns)
		for i := range row {
			var n int
			row[i], n = columnSQLite(stmt, i)
			size += n
		}
		rows = append(rows, row)
		if err := s.bounds.within(len(rows), size); err != nil {
			return nil, err
		}
	}
	switch err := stmt.Err(); {
	case err != nil:
		return replySQLite(err)
	case columns > 0:
		return rows, nil
	case statement.writes():
		return s.c.Changes(), nil
	}
	return statement.verb, nil
}

// columnSQLite reads a value, and tells its size.
func columnSQLite(stmt *sqlite3.Stmt, i int) (any, int) {
	switch stmt.ColumnType(i) {
	case sqlite3.NULL:
		return nil, 1
	case sqlite3.INTEGER:
		return stmt.ColumnInt64(i), 8
	case sqlite3.BLOB:
		text := "X'" + strings.ToUpper(hex.EncodeToString(stmt.ColumnRawBlob(i))) + "'"
		return text, len(text)
	}
	text := strings.ToValidUTF8(stmt.ColumnText(i), "\uFFFD")
	return text, len(text)
}

// replySQLite makes a value of what SQLite refuses, and an error of what keeps
// it from replying.
func replySQLite(err error) (sandbox.Value, error) {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) || code == sqlite3.INTERRUPT {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrLate, err)
	}
	text := strings.TrimPrefix(err.Error(), "sqlite3: ")
	return sandbox.Error(codesSQLite[code] + " " + text), nil
}

// codesSQLite are the names of the codes that a statement can be refused with.
var codesSQLite = map[sqlite3.ErrorCode]string{
	sqlite3.ERROR:      "SQLITE_ERROR",
	sqlite3.INTERNAL:   "SQLITE_INTERNAL",
	sqlite3.PERM:       "SQLITE_PERM",
	sqlite3.ABORT:      "SQLITE_ABORT",
	sqlite3.BUSY:       "SQLITE_BUSY",
	sqlite3.LOCKED:     "SQLITE_LOCKED",
	sqlite3.READONLY:   "SQLITE_READONLY",
	sqlite3.IOERR:      "SQLITE_IOERR",
	sqlite3.CORRUPT:    "SQLITE_CORRUPT",
	sqlite3.FULL:       "SQLITE_FULL",
	sqlite3.CANTOPEN:   "SQLITE_CANTOPEN",
	sqlite3.PROTOCOL:   "SQLITE_PROTOCOL",
	sqlite3.SCHEMA:     "SQLITE_SCHEMA",
	sqlite3.TOOBIG:     "SQLITE_TOOBIG",
	sqlite3.CONSTRAINT: "SQLITE_CONSTRAINT",
	sqlite3.MISMATCH:   "SQLITE_MISMATCH",
	sqlite3.MISUSE:     "SQLITE_MISUSE",
	sqlite3.AUTH:       "SQLITE_AUTH",
	sqlite3.RANGE:      "SQLITE_RANGE",
}
