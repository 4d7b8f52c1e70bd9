package shed_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/shed"
)

// Payments go before everything else, and health checks are never shed.
func Example() {
	const (
		critical = iota // indexes of the classes
		other
	)
	shedder := shed.MustNew(shed.Options[*http.Request]{
		Classes: []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}},
		Classify: func(r *http.Request) int {
			if r.URL.Path == "/pay" {
				return critical
			}
			return other
		},
		Exempt: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Limit:  2, // instead of finding it, so that the example is short
	})
	handler := shed.Handler(shedder, http.NotFoundHandler())
	ask := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
	ask("/search")
	search, _ := shedder.Acquire(context.Background(), httptest.NewRequest("GET", "/search", nil)) // runs meanwhile
	ask("/search")
	ask("/pay")
	search.End(shed.Result{})
	ask("/search")
	// Output:
	// /search 404
	// /search 503
	// /pay 404
	// /search 404
}

// An account that uses more than its equal share of the limit leaves half of the places to others.
func ExampleOptions_tenant() {
	type account struct{} // the key under which authentication, outside of the shedder, puts the name into the context
	shedder := shed.MustNew(shed.Options[*http.Request]{
		Tenant: func(r *http.Request) string {
			name, _ := r.Context().Value(account{}).(string)
			return name // requests without an account are one tenant together
		},
	})
	permit, event := shedder.Acquire(context.Background(), httptest.NewRequest("GET", "/", nil))
	fmt.Println(event.Verdict, shedder.State().Tenants) // a name is a tenant of its own after 2 seconds
	permit.End(shed.Result{})
	// Output: admitted 0
}

func ExampleNew() {
	_, err := shed.New(shed.Options[*http.Request]{Classes: []shed.Class{{Name: "critical", Share: 80}, {Name: "other", Share: 90}}})
	fmt.Println(err)
	// Output: shed: class 1: share: must be at most 80 percent, that of the class before (got 90)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	shed.MustNew(shed.Options[*http.Request]{SLO: -time.Second})
	// Output: shed: slo: must be positive, or 0 for none (got -1s)
}

// A service that is not on HTTP: the request is the name of a job.
func ExampleShedder_Acquire() {
	shedder := shed.MustNew(shed.Options[string]{Limit: 1})
	work := func(job string, then func()) {
		permit, event := shedder.Acquire(context.Background(), job)
		if event.Verdict != shed.Admitted {
			fmt.Println(job, event.Verdict)
			return
		}
		result := shed.Result{Route: "jobs", Failed: true} // unless it returns
		defer func() { permit.End(result) }()
		then()
		result.Failed = false
		fmt.Println(job, "done")
	}
	work("first", func() {
		work("second", func() {})
	})
	work("third", func() {})
	// Output:
	// second shed
	// first done
	// third done
}

// Classes change while the program runs. What was learned stays.
func ExampleShedder_Replace() {
	options := shed.Options[*http.Request]{Limit: 10}
	shedder := shed.MustNew(options)
	options.Classes = []shed.Class{{Name: "writes"}, {Name: "reads", Share: 70}}
	if err := shedder.Replace(options); err != nil {
		fmt.Println("the old options stay:", err)
	}
	for _, class := range shedder.State().Classes {
		fmt.Println(class.Name, "enter below", class.Entry)
	}
	// Output:
	// writes enter below 10
	// reads enter below 7
}

// A shadow shows what would be shed, before anything is.
func ExampleShedder_State() {
	shedder := shed.MustNew(shed.Options[string]{Limit: 1, Mode: core.Shadow})
	first, _ := shedder.Acquire(context.Background(), "a")
	second, event := shedder.Acquire(context.Background(), "b")
	fmt.Println(event.Verdict, event.Shadow)
	state := shedder.State()
	fmt.Println(state.Mode, state.Limit, state.InFlight, state.Classes[0].Shadowed)
	first.End(shed.Result{})
	second.End(shed.Result{})
	// Output:
	// admitted true
	// shadow 1 1 1
}

// With chi: router.Use(func(next http.Handler) http.Handler { return shed.Handler(shedder, next) })
func ExampleHandler() {
	shedder := shed.MustNew(shed.Options[*http.Request]{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println(shedder.State().InFlight, "in flight")
	})
	shed.Handler(shedder, mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	// Output: 1 in flight
}

// A front calls a service that sheds all that it is asked.
func ExampleOptions_needs() {
	reached := 0
	mux := http.NewServeMux()
	mux.HandleFunc("/orders", func(w http.ResponseWriter, _ *http.Request) {
		reached++
		w.WriteHeader(http.StatusServiceUnavailable) // as the service answered
	})
	shedder := shed.MustNew(shed.Options[*http.Request]{
		Needs: func(r *http.Request) string {
			_, pattern := mux.Handler(r)
			return pattern
		},
	})
	front := shed.Handler(shedder, mux)
	for range 1000 {
		front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/orders", nil))
	}
	fmt.Println("shed ahead:", reached < 500)
	// Output: shed ahead: true
}

// Two services that are equally full shed the same requests of a trace.
func ExampleOptions_lot() {
	admits := func(trace string) bool {
		service := shed.MustNew(shed.Options[*http.Request]{
			Limit: 100,
			Lot:   func(r *http.Request) string { return r.Header.Get("Trace") },
		})
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Trace", "a")
		for service.State().InFlight < 60 {
			service.Acquire(r.Context(), r)
		}
		r.Header.Set("Trace", trace)
		permit, _ := service.Acquire(r.Context(), r)
		return permit != nil
	}
	fmt.Println(admits("a"), admits("a"), admits("b"), admits("b"))
	// Output: true true false false
}

// A long poll waits for news, and not for the service.
func ExampleStream() {
	shedder := shed.MustNew(shed.Options[*http.Request]{})
	poll := func(w http.ResponseWriter, _ *http.Request) {
		shed.Stream(w)
		fmt.Println(shedder.State().InFlight, "in flight,", shedder.State().Streams, "stream")
	}
	shed.Handler(shedder, http.HandlerFunc(poll)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/news", nil))
	// Output: 0 in flight, 1 stream
}

// A limit that is known, instead of one that is found.
func ExampleOptions_limit() {
	shedder := shed.MustNew(shed.Options[*http.Request]{Limit: 20})
	fmt.Println(shedder.State().Limit)
	// Output: 20
}

func ExampleVerdict_String() {
	fmt.Println(shed.Admitted, shed.Shed, shed.Left)
	// Output: admitted shed left
}
