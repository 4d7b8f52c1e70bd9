// Balancers starts two servers that weir limits, a balancer in front of them, and two clients: one
// that weir denies, and an innocent one. It prints a row of a Markdown table for each answer of
// weir: how many requests of the innocent client the balancer refused, and for how long.
//
//	balancers -program HAProxy -release 2.8.25 -line 'observe layer7' -config haproxy.cfg -- \
//		haproxy -f @config@
//
// In the command and in the file of -config, @proxy@, @one@ and @two@ are the ports of the balancer
// and of the servers, @dir@ is a folder of this run, and @config@ the path of the file in it.
//
// With -weir, the path of the command, it runs a proxy as docs/gateway.md sets it up: the proxy asks
// weir serve, and all files of the guide are in @dir@, with the ports of this run.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Setup is a balancer as the command line describes it.
type setup struct {
	config  string   // path of a file with placeholders
	command []string // empty for a channel of grpc-go
	channel string   // the service config of that channel
	grpc    bool     // clients call over gRPC
	weir    string   // path of the command, for a proxy that asks it
	serve   string   // arguments of weir serve
	edits   edits    // of the files of the guide
	path    string   // that clients ask for
}

func main() {
	name := flag.String("program", "", "name of the balancer")
	release := flag.String("release", "", "release of the balancer")
	line := flag.String("line", "", "what the row is about")
	only := flag.String("answer", "429,503", "what weir answers the limited client")
	spares := flag.String("spares", "", "the answers for which the balancer must spare the innocent client")
	head := flag.Bool("head", false, "print the head of the table, and run nothing")
	var s setup
	flag.StringVar(&s.config, "config", "", "file of configuration")
	flag.StringVar(&s.channel, "channel", "", "service config of a channel of grpc-go")
	flag.BoolVar(&s.grpc, "grpc", false, "clients call over gRPC")
	flag.StringVar(&s.weir, "weir", "", "path of the command weir, for a proxy of the guide")
	flag.StringVar(&s.serve, "serve", "", "arguments of weir serve")
	flag.Var(&s.edits, "edit", "OLD=>NEW, a change of the files of the guide; may be repeated")
	flag.StringVar(&s.path, "path", "/", "the path that clients ask for")
	flag.Parse()
	s.command = flag.Args()
	s.grpc = s.grpc || s.channel != ""
	if *head {
		fmt.Printf("%s\n\n", time.Now().UTC().Format(time.DateOnly))
		fmt.Print("| program | configuration | weir answers | innocent: refused | for " +
			"| limited: got | requests at weir for each |\n|---|---|---|---|---|---|---|\n")
		return
	}
	if s.weir != "" {
		*only = "429"
	}
	answers := strings.Split(*only, ",")
	rows := make([]string, len(answers))
	errs := make([]error, len(answers))
	var group sync.WaitGroup
	for i, answer := range answers {
		group.Go(func() {
			var r *result
			if r, errs[i] = run(s, answer); errs[i] == nil {
				if slices.Contains(strings.Fields(*spares), answer) && !r.spared() {
					errs[i] = fmt.Errorf("it refuses the innocent client, or repeats denied requests")
				}
				rows[i] = strings.Join([]string{*name + " " + *release, *line,
					r.answer, r.refused(), r.during(), r.got(), r.each()}, " | ")
				if s.weir != "" {
					rows[i] = strings.Join([]string{*name + " " + *release, *line, r.got(), r.refused()}, " | ")
				}
			}
		})
	}
	group.Wait()
	failed := false
	for i := range answers {
		if errs[i] != nil {
			fmt.Fprintf(os.Stderr, "%s, %s, %s: %v\n", *name, *line, answers[i], errs[i])
			failed = true
		}
		if rows[i] != "" {
			fmt.Println("|", rows[i], "|")
		}
	}
	if failed {
		os.Exit(1)
	}
}
