//go:build !noserver

package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	schemas "go.temporal.io/server/schema/postgresql/v12"
	toolschema "go.temporal.io/server/tools/common/schema"
	"go.temporal.io/server/tools/sql"

	"github.com/harpagon/harpagon/wire/secure"
)

const (
	mainStore       = "main"
	visibilityStore = "visibility"

	// setupLock is the advisory lock under which one server at a time makes tables.
	setupLock = 0x68617270

	maxConns     = 20 // of each service to each database
	connLifetime = time.Hour
)

// databases are the two of a cluster, with the folder of their schema in Temporal's
// assets and the version that this server needs.
type databases [2]struct {
	store, schema, version string
	sql                    *config.SQL
}

var errUnreadable = errors.New("it cannot be read")

// parsePostgres reads a URL. What it leaves out comes from the PG* variables, as with
// any client of PostgreSQL; beyond this machine connections are encrypted and the server's
// certificate is verified unless the URL sets another sslmode.
func parsePostgres(o Postgres, ca string) (databases, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Scheme != "postgres" && at.Scheme != "postgresql" {
		return databases{}, errors.New("embedded: PostgreSQL is named by a URL, such as postgres://harpagon@127.0.0.1:5432/harpagon")
	}
	parsed, err := pgx.ParseConfig(o.URL)
	if err != nil { // whose text repeats the URL, in which there may be a password
		return databases{}, fmt.Errorf("embedded: PostgreSQL: the URL cannot be used: %w", cmp.Or(errors.Unwrap(err), errUnreadable))
	}
	if parsed.Database == "" {
		return databases{}, errors.New("embedded: the URL of PostgreSQL names no database; add one, such as /harpagon, which is made where it is missing")
	}
	more := map[string]string{}
	for name, values := range at.Query() {
		more[name] = values[len(values)-1]
	}
	host := parsed.Host
	socket := strings.HasPrefix(host, "/")
	if socket {
		more["host"], host = parsed.Host, "localhost"
	}
	if _, said := more["sslmode"]; !said && !socket && !secure.Loopback(host) {
		more["sslmode"] = "verify-full"
		if ca != "" && more["sslrootcert"] == "" {
			more["sslrootcert"] = ca
		}
	}
	named := func(database string) *config.SQL {
		return &config.SQL{
			PluginName: postgresql.PluginNamePGX, DatabaseName: database, User: parsed.User, Password: parsed.Password,
			ConnectAddr: net.JoinHostPort(host, strconv.Itoa(int(parsed.Port))), ConnectProtocol: "tcp", ConnectAttributes: more,
			MaxConns: maxConns, MaxIdleConns: maxConns, MaxConnLifetime: connLifetime,
		}
	}
	return databases{
		{mainStore, "postgresql/v12/temporal", schemas.Version, named(parsed.Database)},
		{visibilityStore, "postgresql/v12/visibility", schemas.VisibilityVersion, named(parsed.Database + "_visibility")},
	}, nil
}

func (d databases) persistence(shards int) config.Persistence {
	p := config.Persistence{
		DefaultStore: mainStore, VisibilityStore: visibilityStore, NumHistoryShards: int32(cmp.Or(shards, DefaultShards)),
		DataStores: map[string]config.DataStore{},
	}
	for _, one := range d {
		p.DataStores[one.store] = config.DataStore{SQL: one.sql}
	}
	return p
}

// prepare makes the databases and their tables where they are missing or of an older
// version. Servers that start together do so one after the other.
func (d databases) prepare(ctx context.Context, l log.Logger) error {
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, one := range d {
		if err := d.create(one.sql.DatabaseName); err != nil {
			return err
		}
		db, err := sql.NewConnection(one.sql, l)
		if err != nil {
			return fmt.Errorf("embedded: database %s: %w", one.sql.DatabaseName, err)
		}
		err = tables(db, one.schema, one.version, l)
		db.Close()
		if err != nil {
			return fmt.Errorf("embedded: the tables of database %s: %w", one.sql.DatabaseName, err)
		}
	}
	return nil
}

// lock holds the advisory lock on PostgreSQL's own database, which is always there.
func (d databases) lock(ctx context.Context) (unlock func(), err error) {
	c, err := d.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("embedded: no PostgreSQL answers at %s for user %s: %w", d[0].sql.ConnectAddr, d[0].sql.User, err)
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", setupLock); err != nil {
		_ = c.Close(ctx)
		return nil, fmt.Errorf("embedded: waiting for another server that makes the tables: %w", err)
	}
	return func() { _ = c.Close(context.WithoutCancel(ctx)) }, nil
}

// await connects to a PostgreSQL that may be starting, as after a restart of its host.
// What it refuses for another reason, it would refuse again.
func (d databases) await(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		c, err := d.connect(ctx)
		var refused *pgconn.PgError
		if err == nil || errors.As(err, &refused) && refused.Code != cannotConnectNow || !errors.As(err, &refused) && !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

// connect dials PostgreSQL's own database, with the settings of URL and environment.
func (d databases) connect(ctx context.Context) (*pgx.Conn, error) {
	own := d[0].sql
	query := url.Values{}
	for name, value := range own.ConnectAttributes {
		query.Set(name, value)
	}
	if query.Get("sslmode") == "" {
		query.Set("sslmode", "disable") // as the server's own connections
	}
	at := url.URL{Scheme: "postgres", User: url.UserPassword(own.User, own.Password), Host: own.ConnectAddr, Path: "/postgres", RawQuery: query.Encode()}
	return pgx.Connect(ctx, at.String())
}

// The codes of PostgreSQL for what is looked for.
const (
	cannotConnectNow      = "57P03"
	duplicateDatabase     = "42P04"
	insufficientPrivilege = "42501"
)

func (d databases) create(name string) error {
	ctx := context.Background()
	c, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == duplicateDatabase:
		return nil
	case errors.As(err, &refused) && refused.Code == insufficientPrivilege:
		var there bool
		if ask := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); ask == nil && there {
			return nil
		}
		return fmt.Errorf("embedded: user %s may not make database %s; make it with createdb -O %s %s, or let the user with ALTER ROLE %s CREATEDB: %w",
			d[0].sql.User, name, d[0].sql.User, name, d[0].sql.User, err)
	}
	return err
}

// tables brings a database to a version of the schema.
func tables(db *sql.Connection, schema, version string, l log.Logger) error {
	if now, err := db.ReadSchemaVersion(); err == nil && now == version {
		return nil
	}
	if _, err := db.ReadSchemaVersion(); err != nil { // empty
		if err := toolschema.NewSetupSchemaTask(db, &toolschema.SetupConfig{InitialVersion: "0.0"}, l).Run(); err != nil {
			return err
		}
	}
	return toolschema.NewUpdateSchemaTask(db, &toolschema.UpdateConfig{SchemaName: schema}, l).Run()
}
