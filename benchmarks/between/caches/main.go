// Caches is what benchmarks/between/caches.sh has behind and in front of a cache: a program with a
// limiter, and a limited client and an innocent one. Its commands:
//
//	caches serve                            # prints its URL, and ends with its standard input
//	caches port                             # prints a free port
//	caches ask ORIGIN CACHE NAME LINE       # prints a row about a cache in front of ORIGIN
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func main() {
	switch command := strings.Join(os.Args[1:2], ""); {
	case command == "serve" && len(os.Args) == 2:
		server := httptest.NewServer(origin())
		defer server.Close()
		fmt.Println(server.URL)
		io.Copy(io.Discard, os.Stdin)
	case command == "port" && len(os.Args) == 2:
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer listener.Close()
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	case command == "ask" && len(os.Args) == 6:
		s := session{os.Args[2], os.Args[3], strconv.FormatInt(time.Now().UnixNano(), 36)}
		fmt.Printf("| %s | %s | %s |\n", os.Args[4], os.Args[5], strings.Join(s.cells(), " | "))
	default:
		fmt.Fprintln(os.Stderr, "caches serve | caches port | caches ask ORIGIN CACHE NAME LINE")
		os.Exit(2)
	}
}

// origin answers pages that caches may store for a second. It allows each user, whom X-User names,
// five a day. Below /bare/ pages have no fields, and below /full/ a denial is a 503.
func origin() http.Handler {
	var pages atomic.Int64
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=1")
		n := pages.Add(1)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n)) // some keep nothing that they cannot ask for again
		fmt.Fprintf(w, "page %d\n", n)
	})
	limited := func(options headers.Options, as503 bool) http.Handler {
		return nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name:      "per-user",
				Limit:     limits.TokenBucket(limits.PerDay(5), 5),
				Key:       keyfuncs.Header("X-User"),
				DenyAs503: as503,
			}},
			Headers: options,
		}).Handler(page)
	}
	mux := http.NewServeMux()
	mux.Handle("/", limited(headers.Options{}, false))
	mux.Handle("/bare/", limited(headers.Options{NotOnStorable: true}, false))
	mux.Handle("/full/", limited(headers.Options{}, true))
	return mux
}

// session is what the clients of a row see of a cache.
type session struct {
	origin, cache string
	row           string // is part of the names of its users
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// get asks the origin or the cache for a user of this row.
func (s session) get(url, user string) answer {
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return answer{err: err}
	}
	r.Header.Set("X-User", user+"-"+s.row)
	response, err := (&http.Client{Timeout: 30 * time.Second}).Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body), err}
}

// use takes n units of a user, past the cache.
func (s session) use(path, user string, n int) {
	for range n {
		s.get(s.origin+path+"used", user)
	}
}

// cells returns what becomes of a denial, what the next client of the page gets, whose fields hits
// have, and what a limited client and then an innocent one get of pages that are stale.
func (s session) cells() []string {
	hits := s.hit("/") + ", " + s.hit("/bare/")
	s.use("/", "limited", 5)
	denied := s.get(s.cache+"/denied", "limited")
	next := s.get(s.cache+"/denied", "next").said()
	stale429, after429 := s.stale("/")
	stale503, after503 := s.stale("/full/")
	return []string{denied.kept(), next, hits, stale429 + ", " + stale503, after429 + ", " + after503}
}

// hit returns whose fields the second client of a page gets if the first one has nothing left.
func (s session) hit(path string) string {
	s.use(path, "first", 4)
	first := s.get(s.cache+path+"hit", "first")
	second := s.get(s.cache+path+"hit", "second")
	switch left := second.header.Get("RateLimit"); {
	case second.err != nil || second.status != http.StatusOK:
		return second.said()
	case left == "":
		return "none"
	case first.body == second.body && strings.Contains(left, "r=0"):
		return "the first client's"
	default:
		return "its own"
	}
}

// stale returns what a limited client and then an innocent one get of a page that may be stored no
// longer.
func (s session) stale(path string) (limited, innocent string) {
	s.use(path, "limited", 5)
	stored := s.get(s.cache+path+"stale", "innocent")
	time.Sleep(2500 * time.Millisecond) // stamps of HTTP are whole seconds
	denied := s.get(s.cache+path+"stale", "limited")
	time.Sleep(200 * time.Millisecond) // a cache may ask in the background
	after := s.get(s.cache+path+"stale", "innocent")
	said := func(a answer) string {
		if a.status == http.StatusOK && a.body == stored.body {
			return a.said() + " stale"
		}
		return a.said()
	}
	return said(denied), said(after)
}

func (a answer) said() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprint(a.status)
}

// kept returns the status of a denial, and what it lacks.
func (a answer) kept() string {
	if a.err != nil {
		return a.err.Error()
	}
	var lost []string
	for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "Cache-Control"} {
		if a.header.Get(field) == "" {
			lost = append(lost, field)
		}
	}
	if !strings.Contains(a.body, `"violated-policies"`) {
		lost = append(lost, "document")
	} else if a.header.Get("Content-Type") != "application/problem+json" {
		lost = append(lost, "type")
	}
	if lost == nil {
		return a.said() + ", whole"
	}
	return a.said() + " without " + strings.Join(lost, ", ")
}
