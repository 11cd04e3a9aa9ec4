package sql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"lockstep/sandbox"
)

// schemaPrefix starts the names of the schemas that runs are lent.
const schemaPrefix = "lockstep_run_"

// A postgresStore makes schemas in a database of somebody else's server. It
// logs in as an ordinary role, which must own nothing but what is lent.
type postgresStore struct {
	config   *pgconn.Config
	bounds   bounds
	version  string
	places   chan struct{}       // one for each connection that may be opened
	idle     chan *pgconn.PgConn // connections as good as new
	clearing sync.WaitGroup      // schemas whose connections are still being cut
}

func openPostgres(ctx context.Context, dsn string, bounds bounds) (*postgresStore, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	// What a run needs is set here, and what it must not exceed. The server's
	// own time limit comes before that of Do, so that a statement over time
	// leaves a connection that can be used again.
	for name, value := range map[string]string{
		"application_name":                    "lockstep",
		"statement_timeout":                   milliseconds(bounds.answer - bounds.answer/10),
		"idle_in_transaction_session_timeout": milliseconds(time.Minute),
		"default_transaction_isolation":       "read committed",
		"standard_conforming_strings":         "on",
		"client_encoding":                     "UTF8",
		"DateStyle":                           "ISO",
		"TimeZone":                            "UTC",
		"synchronous_commit":                  "off",
		"work_mem":                            "4MB",
		"max_parallel_workers_per_gather":     "0",
		"jit":                                 "off",
	} {
		config.RuntimeParams[name] = value
	}
	config.MaxProtocolMessageBodyLen = bounds.bytes
	s := &postgresStore{
		config: config, bounds: bounds,
		places: make(chan struct{}, bounds.conns),
		idle:   make(chan *pgconn.PgConn, bounds.conns),
	}
	for range bounds.conns {
		s.places <- struct{}{}
	}
	conn, _, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	s.version, _, _ = strings.Cut(conn.ParameterStatus("server_version"), " ")
	err = s.inspect(ctx, conn)
	if err == nil {
		err = s.sweep(ctx, conn)
	}
	s.release(conn)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	return s, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// inspect refuses a role that could do more than Check should be trusted to
// keep from it.
func (s *postgresStore) inspect(ctx context.Context, conn *pgconn.PgConn) error {
	const query = `
		SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR EXISTS (
		           SELECT FROM pg_roles r WHERE r.rolname LIKE 'pg\_%' AND pg_has_role(current_user, r.oid, 'MEMBER')
		               AND r.rolname <> 'pg_database_owner'),
		       has_database_privilege(current_database(), 'CREATE')
		FROM pg_roles WHERE rolname = current_user`
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return err
	}
	row := results[0].Rows[0]
	switch {
	case string(row[0]) == "t":
		return fmt.Errorf("role %q may do more than it needs: give the site a role and a database of its own (CREATE ROLE lockstep LOGIN; CREATE DATABASE lockstep OWNER lockstep)", s.config.User)
	case string(row[1]) == "f":
		return fmt.Errorf("role %q may not create schemas in this database: GRANT CREATE ON DATABASE", s.config.User)
	}
	return nil
}

// sweep drops the schemas of runs whose site has ended without dropping them: no
// session holds their lock.
func (s *postgresStore) sweep(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, `
		SELECT nspname FROM pg_namespace
		WHERE nspname LIKE '`+strings.ReplaceAll(schemaPrefix, "_", `\_`)+`%' AND pg_has_role(nspowner, 'USAGE')`).ReadAll()
	if err != nil {
		return err
	}
	for _, row := range results[0].Rows {
		name := string(row[0])
		locked, err := conn.Exec(ctx, "SELECT pg_try_advisory_lock("+lockOf(name)+")").ReadAll()
		if err != nil {
			return err
		}
		if string(locked[0].Rows[0][0]) != "t" {
			continue
		}
		if _, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS "`+name+`" CASCADE; SELECT pg_advisory_unlock(`+lockOf(name)+")").ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// lockOf is the lock that says that a schema is lent.
func lockOf(schema string) string { return "hashtextextended('" + schema + "', 0)" }

func (s *postgresStore) engine() sandbox.Engine {
	return sandbox.Engine{Name: "postgresql", Version: s.version, Mode: sandbox.External}
}

func (s *postgresStore) close() {
	s.clearing.Wait()
	for {
		select {
		case conn := <-s.idle:
			s.hangUp(conn)
		default:
			return
		}
	}
}

// session gives a connection on which statement has been run.
func (s *postgresStore) session(ctx context.Context, statement string) (*pgconn.PgConn, error) {
	for {
		conn, fresh, err := s.dial(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = conn.Exec(ctx, statement).ReadAll(); err == nil {
			return conn, nil
		}
		died := conn.IsClosed()
		s.hangUp(conn)
		if fresh || !died || ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, err)
		}
		// It was idle while the server went away. There are others.
	}
}

// dial gives a connection that no run has, a fresh one if need be.
func (s *postgresStore) dial(ctx context.Context) (conn *pgconn.PgConn, fresh bool, err error) {
	timer := time.NewTimer(s.bounds.wait)
	defer timer.Stop()
	for {
		select {
		case conn := <-s.idle:
			if !conn.IsClosed() {
				return conn, false, nil
			}
			s.hangUp(conn)
			continue
		default:
		}
		select {
		case conn := <-s.idle:
			s.idle <- conn
		case <-s.places:
			conn, err := pgconn.ConnectConfig(ctx, s.config)
			if err != nil {
				s.places <- struct{}{}
				var refused *pgconn.PgError
				if errors.As(err, &refused) && refused.Code == "53300" { // too_many_connections
					return nil, false, fmt.Errorf("%w: %w", sandbox.ErrBusy, err)
				}
				return nil, false, fmt.Errorf("%w: %w", sandbox.ErrDown, err)
			}
			return conn, true, nil
		case <-timer.C:
			return nil, false, fmt.Errorf("%w: no connection to PostgreSQL came free in %v", sandbox.ErrBusy, s.bounds.wait)
		case <-ctx.Done():
			return nil, false, sandbox.Ended(ctx)
		}
	}
}

// release gives a connection back, as it was when it was opened.
func (s *postgresStore) release(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), s.bounds.answer)
	defer cancel()
	if _, err := conn.Exec(ctx, "DISCARD ALL").ReadAll(); err != nil || conn.IsClosed() {
		s.hangUp(conn)
		return
	}
	s.idle <- conn
}

// hangUp closes a connection; another may be opened in its place.
func (s *postgresStore) hangUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), s.bounds.answer)
	defer cancel()
	conn.Close(ctx)
	s.places <- struct{}{}
}

func (s *postgresStore) create(ctx context.Context) (database, error) {
	ctx, cancel := context.WithTimeout(ctx, s.bounds.answer)
	defer cancel()
	d := &postgresDatabase{store: s, name: schemaPrefix + strings.ToLower(rand.Text())}
	// The lock is the session's. It is held before the schema can be seen.
	conn, err := s.session(ctx, "SELECT pg_advisory_lock("+lockOf(d.name)+"); CREATE SCHEMA "+d.name+"; "+d.enter())
	if err != nil {
		return nil, fmt.Errorf("create a schema: %w", err)
	}
	d.spare = []*pgconn.PgConn{conn}
	return d, nil
}

// A postgresDatabase is the schema of one run.
type postgresDatabase struct {
	store *postgresStore
	name  string

	mu    sync.Mutex
	spare []*pgconn.PgConn // connections in this schema that no actor has
	cut   []*pgconn.PgConn // and those that are lost; the server may still be at work on them
}

// enter is the statement that makes a session see this schema alone.
func (d *postgresDatabase) enter() string { return "SET search_path TO " + d.name }

func (d *postgresDatabase) connect(ctx context.Context) (session, error) {
	if conn := d.takeSpare(); conn != nil {
		return &postgresConn{database: d, pg: conn}, nil
	}
	conn, err := d.store.session(ctx, d.enter())
	if err != nil {
		return nil, fmt.Errorf("enter a schema: %w", err)
	}
	return &postgresConn{database: d, pg: conn}, nil
}

func (d *postgresDatabase) takeSpare() *pgconn.PgConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.spare) == 0 {
		return nil
	}
	conn := d.spare[0]
	d.spare = d.spare[1:]
	return conn
}

// drop removes the schema, as soon as nothing is at work in it.
func (d *postgresDatabase) drop() {
	if len(d.cut) == 0 {
		d.clear()
		return
	}
	d.store.clearing.Go(func() {
		for _, conn := range d.cut {
			<-conn.CleanupDone()
			d.store.places <- struct{}{}
		}
		d.clear()
	})
}

func (d *postgresDatabase) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*d.store.bounds.answer)
	defer cancel()
	if len(d.spare) == 0 {
		conn, err := d.store.session(ctx, d.enter())
		if err != nil {
			return // sweep finds it
		}
		d.spare = append(d.spare, conn)
	}
	for i, conn := range d.spare {
		if i == 0 {
			_, err := conn.Exec(ctx, "DROP SCHEMA "+d.name+" CASCADE").ReadAll()
			if err != nil {
				d.store.hangUp(conn)
				continue
			}
		}
		d.store.release(conn)
	}
}

// A postgresConn is a connection in the schema of a run.
type postgresConn struct {
	database *postgresDatabase
	pg       *pgconn.PgConn
}

func (p *postgresConn) close() {
	d := p.database
	if !p.pg.IsClosed() && p.pg.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), d.store.bounds.answer)
		defer cancel()
		// An error leaves the connection closed, or is that of a lost one.
		_, _ = p.pg.Exec(ctx, "ROLLBACK").ReadAll()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.pg.IsClosed() {
		d.cut = append(d.cut, p.pg)
	} else {
		d.spare = append(d.spare, p.pg)
	}
}

func (p *postgresConn) do(ctx context.Context, s parsed) (sandbox.Value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bounds := p.database.store.bounds
	// The extended protocol takes one statement at a time.
	reader := p.pg.ExecParams(ctx, s.text, nil, nil, nil, nil)
	returns := len(reader.FieldDescriptions()) > 0
	rows, size := []any{}, 0
	for reader.NextRow() {
		row := make([]any, len(reader.Values()))
		for i, field := range reader.FieldDescriptions() {
			row[i] = valuePostgres(field.DataTypeOID, reader.Values()[i])
			size += 8 + len(reader.Values()[i])
		}
		rows = append(rows, row)
		if err := bounds.within(len(rows), size); err != nil {
			cancel() // and with it the connection
			reader.Close()
			return nil, err
		}
	}
	tag, err := reader.Close()
	if err != nil {
		return p.refused(err)
	}
	switch {
	case returns && s.verb != "CREATE TABLE":
		return rows, nil
	case s.writes():
		return tag.RowsAffected(), nil
	case s.verb == "COMMIT":
		return tag.String(), nil // ROLLBACK, of a transaction that has failed
	}
	return s.verb, nil
}

// refused makes a value of what PostgreSQL refuses, and an error of what keeps
// it from replying.
func (p *postgresConn) refused(err error) (sandbox.Value, error) {
	var refused *pgconn.PgError
	var long *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &long):
		return nil, fmt.Errorf("%w: a row of more than %d bytes", sandbox.ErrTooMuch, p.database.store.bounds.bytes)
	case !errors.As(err, &refused) || p.pg.IsClosed():
		return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	case refused.Code == "57014": // query_canceled
		return nil, fmt.Errorf("%w: %w", sandbox.ErrLate, err)
	}
	return sandbox.Error(refused.Code + " " + refused.Message), nil
}

// The types whose values are integers. A sum of bigints is a numeric.
const (
	oidInt8    = 20
	oidInt2    = 21
	oidInt4    = 23
	oidNumeric = 1700
)

// valuePostgres reads a value in the text format.
func valuePostgres(oid uint32, text []byte) any {
	if text == nil {
		return nil
	}
	switch oid {
	case oidInt2, oidInt4, oidInt8, oidNumeric:
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n
		}
	}
	return string(text)
}
