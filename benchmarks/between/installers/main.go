// Installers runs an installer of packages against a mirror behind weir, once for each way in
// which weir answers, and prints one row of a Markdown table. The mirror serves what the usual
// client of a registry has left in a folder:
//
//	installers -name npm -serve npm=/tmp/cache -- bash -c 'npm install --registry $URL express'
//
// With -act it runs any program once, without a limit, and prints how many requests that costs.
// With -busy all requests are denied, and it prints the last line that the program says.
//
// Each run has a folder of its own, as HOME and as the directory of the command. -head prints the
// head of the table.
package main

import (
	"flag"
	"fmt"
	"log"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

const (
	perSecond = 10
	burst     = 10
	queue     = 200
	longest   = 5 * time.Minute // of one run
)

// Answer is a way to limit the mirror. The first has no limit.
type answer struct {
	name    string
	limit   limits.Limit
	headers headers.Options
}

// busy is an answer that denies all: a limit of one at once, of which one is held.
const busy = "busy"

var (
	bucket  = limits.TokenBucket(limits.PerSecond(perSecond), burst)
	answers = []answer{
		{name: "no limit"},
		{name: "least wait", limit: bucket},
		{name: "Jitter 8s", limit: bucket, headers: headers.Options{Jitter: 8 * time.Second}},
		{name: "promises", limit: bucket, headers: headers.Options{MaxPromise: time.Minute}},
		{name: "LeakyQueue", limit: limits.LeakyQueue(limits.PerSecond(perSecond), queue)},
	}
)

// servers serve what a folder or an address has.
var servers = map[string]func(from string) (http.Handler, error){
	"npm":        fromNPM,
	"wheels":     fromWheels,
	"cargo":      fromCargo,
	"go":         fromGo,
	"files":      serveFiles,
	"proxy":      serveProxy,
	"git":        serveGit,
	"kubernetes": serveKubernetes,
}

func main() {
	log.SetFlags(0)
	name := flag.String("name", "", "program and its version")
	source := flag.String("serve", "", "KIND=FOLDER or KIND=ADDRESS; kinds: "+
		strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
	only := flag.String("answer", "", "the answers to run, with commas; all unless set")
	each := flag.Bool("each", false,
		"print the requests of each second, and each denial, to standard error")
	head := flag.Bool("head", false, "print the head of the table and run nothing")
	act := flag.String("act", "",
		"what the program does: print what it costs, instead of denying; PACKAGES becomes their number")
	denied := flag.Bool(busy, false, "deny every request, for a second each time")
	flag.Parse()
	if *head {
		printHead(*act != "")
		return
	}
	kind, from, _ := strings.Cut(*source, "=")
	serve, ok := servers[kind]
	if !ok || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	handler, err := serve(from)
	if err != nil {
		log.Fatal(err)
	}
	packages := 0
	if m, ok := handler.(mirror); ok {
		packages = m.packages()
	}
	if *act != "" {
		*act = strings.ReplaceAll(*act, "PACKAGES", strconv.Itoa(packages))
		handler = far(handler)
	}
	// once runs the command.
	once := func(a answer) *report {
		r, err := run(handler, a, flag.Args())
		if err != nil {
			log.Fatalf("%s, %s: %v", *name, a.name, err)
		}
		if *each {
			r.log(*name + ", " + a.name)
		}
		return r
	}
	if *denied {
		r := once(answer{name: busy, limit: limits.Concurrent(1)})
		exit := "0"
		if r.failed != "" {
			exit = strings.TrimPrefix(r.failed[:strings.Index(r.failed, ":")], "exit status ")
		}
		fmt.Printf("| %s | %d | %s | %s |\n", *name, r.denials(), exit, r.said)
		return
	}
	free := once(answers[0])
	if free.failed != "" {
		log.Fatalf("%s fails without a limit: %s", *name, free.failed)
	}
	n := len(free.requests)
	if *act != "" {
		fmt.Printf("| %s | %s | %d | %d |\n", *act, *name, n, free.atOnce)
		return
	}
	row := []string{*name, fmt.Sprint(packages), fmt.Sprint(n),
		fmt.Sprintf("%.1f", ideal(n).Seconds()), fmt.Sprintf("%.1f", free.took.Seconds())}
	for _, a := range answers[1:] {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), a.name) {
			row = append(row, "")
			continue
		}
		r := once(a)
		row = append(row, r.cell(n))
		if missing := r.missing(); len(missing) > 0 {
			log.Printf("%s, %s: the mirror has no %s", *name, a.name, strings.Join(missing, " "))
		}
	}
	fmt.Println("|", strings.Join(row, " | "), "|")
}

func printHead(act bool) {
	if act {
		fmt.Println("| act | program | requests | at once |\n|---|---|---|---|")
		return
	}
	head := "| installer | packages | requests | ideal, s | no limit, s |"
	line := "|---|---|---|---|---|"
	for _, a := range answers[1:] {
		head, line = head+" "+a.name+" |", line+"---|"
	}
	fmt.Println(head + "\n" + line)
}

// ideal returns how long the bucket takes to admit n requests.
func ideal(n int) time.Duration {
	return time.Duration(max(0, n-burst)) * time.Second / perSecond
}

// far answers like next after a tenth of a second, as a server that is far away.
func far(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		next.ServeHTTP(w, r)
	})
}
