package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/plans"
)

// service is the program without its port.
type service struct {
	*testing.T
	db        *sql.DB
	customers *plans.Cache[plan]
	handler   http.Handler
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// serving runs a test in virtual time. SQLite is the real one.
func serving(t *testing.T, test func(s *service)) {
	file := filepath.Join(t.TempDir(), "plans.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		customers, err := newCache(db)
		if err != nil {
			t.Fatal(err)
		}
		defer customers.Close()
		handler, err := limited(customers, ok)
		if err != nil {
			t.Fatal(err)
		}
		test(&service{t, db, customers, handler})
	})
}

// execute executes a statement, which must change one row.
func (s *service) execute(statement string) {
	s.Helper()
	result, err := s.db.ExecContext(context.Background(), statement)
	if err != nil {
		s.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		s.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// ask sends a request with an API key, and expects a status and policies.
func (s *service) ask(key string, status int, policies string) {
	s.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-API-Key", key)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if got := w.Header().Get("Ratelimit-Policy"); w.Code != status || !strings.HasPrefix(got, policies) {
		s.Errorf("%d, %s, want %d, %s", w.Code, got, status, policies)
	}
}

const (
	free = `"rate";q=10;w=60, "quota";q=1000;`
	pro  = `"rate";q=300;w=60, "quota";q=100000;`
)

func TestAPlanChangedBySQLIsInForceWithinTheTTL(t *testing.T) {
	serving(t, func(s *service) {
		for range 10 {
			s.ask("k-acme", 200, free)
		}
		s.ask("k-acme", 429, free)
		s.execute(`UPDATE customers SET plan = 'pro' WHERE name = 'acme'`)
		s.ask("k-acme", 429, free) // which is cached
		time.Sleep(5 * time.Second)
		s.ask("k-acme", 200, pro)
		s.execute(`UPDATE plans SET per_minute = 20 WHERE name = 'pro'`)
		for range 5 { // a busy key is looked up in the background
			s.ask("k-acme", 200, `"rate";`)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		s.ask("k-acme", 200, `"rate";q=20;`)
		s.execute(`DELETE FROM customers WHERE name = 'acme'`)
		time.Sleep(5 * time.Second)
		s.ask("k-acme", 200, `"anonymous";q=5;`)
	})
}

func TestInventedKeysShareTheLimitOfTheirAddress(t *testing.T) {
	serving(t, func(s *service) {
		for _, key := range []string{"k-1", "k-2", "k-3", "k-4", "k-5"} {
			s.ask(key, 200, `"anonymous";q=5;`)
		}
		s.ask("k-6", 429, `"anonymous";q=5;`)
	})
}

func TestPlansStayWhileTheDatabaseIsAway(t *testing.T) {
	serving(t, func(s *service) {
		s.execute(`UPDATE customers SET plan = 'pro' WHERE name = 'acme'`)
		s.ask("k-acme", 200, pro)
		s.db.Close()
		for range 30 {
			time.Sleep(time.Minute)
			s.ask("k-acme", 200, pro)
		}
		// Each request asks for its plan more than once: which rules apply, and by which limits?
		if state := s.customers.State(); state.LastKnown < 30 || state.LastKnownAge != 30*time.Minute ||
			state.Failures < 30 {
			s.Errorf("%+v", state)
		}
	})
}

func TestAMistakeInTheTableChangesNoPlan(t *testing.T) {
	serving(t, func(s *service) {
		s.ask("k-acme", 200, free)
		s.execute(`UPDATE plans SET per_minute = 0 WHERE name = 'free'`)
		time.Sleep(time.Minute)
		s.ask("k-acme", 200, free)
	})
}

// The first look-up fails, and another one succeeds while the request is decided.
func TestAPlanThatArrivesMidwayLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var customers *plans.Cache[plan]
		lookups, substitutes := 0, 0
		customers = plans.MustNew(func(context.Context, string) (plan, error) {
			if lookups++; lookups == 1 {
				return plan{}, errors.New("away")
			}
			return newPlan("pro", 300, 100_000), nil
		}, newPlan("", 5, 100), plans.Options{Observe: func(context.Context, plans.Answer) {
			if substitutes++; substitutes == 2 {
				customers.Expire(keyfuncs.Digest("k-acme"))
			}
		}})
		defer customers.Close()
		handler, err := limited(customers, ok)
		if err != nil {
			t.Fatal(err)
		}
		s := &service{T: t, handler: handler}
		s.ask("k-acme", 200, `"anonymous";q=5;`)
	})
}
