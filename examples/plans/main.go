// Plans reads the limits of customers from a database: SQLite in this process, or Postgres, if -db
// is its URL, such as postgres://shop@localhost/shop. A plan that changes there is in force five
// seconds later. It is a module of its own.
//
// To try it (only the lines that matter of each answer):
//
//	$ go -C examples/plans run . -db /tmp/plans.db
//	$ curl -i -H 'X-API-Key: k-acme' localhost:8080
//	HTTP/1.1 200 OK
//	Ratelimit: "rate";r=9;t=54, "quota";r=999;t=...
//	Ratelimit-Policy: "rate";q=10;w=60, "quota";q=1000;w=...
//	$ go -C examples/plans run . -db /tmp/plans.db \
//	    -sql "UPDATE customers SET plan = 'pro' WHERE name = 'acme'"
//	1 row changed
//	$ until curl -si -H 'X-API-Key: k-acme' localhost:8080 | grep 'q=300'; do sleep 1; done
//	Ratelimit-Policy: "rate";q=300;w=60, "quota";q=100000;w=...
//	$ curl -i -H 'X-API-Key: k-invented' localhost:8080
//	HTTP/1.1 200 OK
//	Ratelimit-Policy: "anonymous";q=5;w=60
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/plans"
)

// plan is what a customer buys. The zero name is that of requests without a customer.
type plan struct {
	name        string
	rate, quota limits.Limit
}

// Validate implements plans.Plan: a mistake in the table leaves the last known plan in force.
func (p plan) Validate() error { return errors.Join(p.rate.Validate(), p.quota.Validate()) }

func (p plan) rateOf() limits.Limit  { return p.rate }
func (p plan) quotaOf() limits.Limit { return p.quota }

// newPlan returns a plan of a rate and a quota.
func newPlan(name string, perMinute, perMonth int64) plan {
	return plan{
		name:  name,
		rate:  limits.SlidingWindow(limits.PerMinute(perMinute)),
		quota: limits.Calendar(perMonth, limits.Month),
	}
}

// A digest of an API key is as good a name as the key, and no secret.
const tables = `
CREATE TABLE IF NOT EXISTS plans (
	name TEXT PRIMARY KEY, per_minute INTEGER NOT NULL, per_month INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS customers (
	digest TEXT PRIMARY KEY, name TEXT NOT NULL, plan TEXT NOT NULL REFERENCES plans);
INSERT INTO plans VALUES ('free', 10, 1000), ('pro', 300, 100000) ON CONFLICT DO NOTHING;`

const query = `
SELECT plans.name, per_minute, per_month
FROM customers JOIN plans ON customers.plan = plans.name WHERE digest = $1`

// open opens a database, which name says: a file of SQLite, or the URL of one of Postgres. It
// creates what the database lacks.
func open(ctx context.Context, name string) (*sql.DB, error) {
	driver, source := "sqlite", name
	if strings.HasPrefix(name, "postgres://") {
		driver = "pgx"
	} else {
		file := url.URL{Scheme: "file", Opaque: name,
			RawQuery: "_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)"}
		source = file.String()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, tables)
	if err == nil {
		_, err = db.ExecContext(ctx,
			`INSERT INTO customers VALUES ($1, 'acme', 'free') ON CONFLICT DO NOTHING`,
			keyfuncs.Digest("k-acme"))
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// newCache returns a cache of the plans in db.
func newCache(db *sql.DB) (*plans.Cache[plan], error) {
	lookUp := func(ctx context.Context, digest string) (plan, error) {
		var name string
		var perMinute, perMonth int64
		err := db.QueryRowContext(ctx, query, digest).Scan(&name, &perMinute, &perMonth)
		if errors.Is(err, sql.ErrNoRows) {
			return plan{}, plans.ErrNoPlan
		}
		if err != nil {
			log.Printf("looking up a plan: %v", err)
			return plan{}, err
		}
		return newPlan(name, perMinute, perMonth), nil
	}
	return plans.New(lookUp, newPlan("", 5, 100), plans.Options{
		TTL: 5 * time.Second, // so that it is quick to try; a minute is usual
	})
}

// customer is the key of a customer's digest in a context.
type customer struct{}

// identified puts the digest of a customer's API key into the context. A client can invent API
// keys, so a key without a plan counts as none. It is asked once: if each rule asked, the plan
// could arrive in between, and no rule would limit the request.
func identified(customers *plans.Cache[plan], next http.Handler) http.Handler {
	apiKey := keyfuncs.APIKey("X-API-Key")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if digest, err := apiKey(r); err == nil {
			if p, err := customers.Find(r.Context(), digest); err == nil && p.name != "" {
				r = r.WithContext(context.WithValue(r.Context(), customer{}, digest))
			}
		}
		next.ServeHTTP(w, r)
	})
}

func byCustomer(r *http.Request) (string, error) {
	digest, ok := r.Context().Value(customer{}).(string)
	if !ok {
		return "", core.ErrDoesNotApply
	}
	return digest, nil
}

// limited limits customers by their plans, and all others by address.
func limited(customers *plans.Cache[plan], next http.Handler) (http.Handler, error) {
	rules := []nethttp.Rule{
		{Name: "rate", Key: byCustomer, LimitFor: customers.LimitFor(plan.rateOf)},
		{Name: "quota", Key: byCustomer, LimitFor: customers.LimitFor(plan.quotaOf)},
	}
	rules = append(rules, nethttp.Rule{
		Name:  "anonymous",
		Limit: newPlan("", 5, 100).rate,
		Key:   core.Otherwise(rules, keyfuncs.Address(keyfuncs.Peer)),
	})
	limiter, err := nethttp.New(nethttp.Config{Rules: rules})
	if err != nil {
		return nil, err
	}
	return identified(customers, limiter.Handler(next)), nil
}

func main() {
	name := flag.String("db", "plans.db", "the database: a file of SQLite, or postgres://...")
	statement := flag.String("sql", "", "a statement to execute instead of serving")
	flag.Parse()
	if err := run(*name, *statement); err != nil {
		log.Fatal(err)
	}
}

func run(name, statement string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := open(ctx, name)
	if err != nil {
		return err
	}
	defer db.Close()
	if statement != "" {
		return execute(ctx, db, statement)
	}
	customers, err := newCache(db)
	if err != nil {
		return err
	}
	defer customers.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "Hello, here is your answer.")
	})
	handler, err := limited(customers, mux)
	if err != nil {
		return err
	}
	return serve(ctx, handler)
}

// execute prints how many rows a statement has changed.
func execute(ctx context.Context, db *sql.DB, statement string) error {
	result, err := db.ExecContext(ctx, statement)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	noun := "rows"
	if n == 1 {
		noun = "row"
	}
	fmt.Println(n, noun, "changed")
	return nil
}

// serve answers on $ADDR, or on port 8080 if it is not set, until ctx ends. Then requests in flight
// have ten seconds.
func serve(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
