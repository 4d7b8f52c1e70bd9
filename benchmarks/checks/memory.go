package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/weir-go/weir/benchmarks/measure"
	"github.com/weir-go/weir/benchmarks/table"
)

// checksARound is how many checks a round measures.
const checksARound = 20_000

// keeper is a weir serve with many keys.
type keeper struct {
	name      string
	process   *process
	conn      net.Conn
	answers   *bufio.Reader
	atFirst   float64   // MiB before the first key
	processor []float64 // µs a check
}

// remember prints what weir serve takes with many keys, and what a check of one of them costs.
func remember(rounds int) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.end()
	commands, err := b.commands()
	if err != nil {
		return err
	}
	file, err := b.write("weir.yaml", policy)
	if err != nil {
		return err
	}
	var all []*keeper
	for i, command := range commands {
		socket := filepath.Join(b.dir, strconv.Itoa(i)+".sock")
		p, err := b.start("unix", socket, command, "serve", "--max-keys", strconv.Itoa(*keys),
			"--check", "unix:"+socket, "--grpc", "", "--operator", "", file)
		if err != nil {
			return err
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		k := &keeper{name: filepath.Base(command), process: p, conn: conn, answers: bufio.NewReader(conn)}
		k.atFirst = p.resident("VmRSS")
		if err := k.check(0, *keys); err != nil {
			return err
		}
		all = append(all, k)
	}
	for round := range rounds {
		for _, k := range all {
			before := k.process.used()
			if err := k.check(round*checksARound, checksARound); err != nil {
				return err
			}
			k.processor = append(k.processor, float64((k.process.used()-before).Nanoseconds())/1000/checksARound)
		}
	}
	t := table.Table{Heads: []string{"", "MiB without keys", fmt.Sprintf("MiB with %s", table.Number(float64(*keys))),
		"of that the program's file", "at most", "µs a check"}}
	for _, k := range all {
		mib := func(line string) string { return fmt.Sprintf("%.1f", k.process.resident(line)) }
		t.Add(k.name, fmt.Sprintf("%.1f", k.atFirst), mib("VmRSS"), mib("RssFile"), mib("VmHWM"),
			fmt.Sprintf("%.2f", measure.Median(k.processor)))
	}
	t.Print(os.Stdout)
	return nil
}

// check sends n checks in one go, each of another key.
func (k *keeper) check(first, n int) error {
	failed := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(k.conn)
		for i := first; i < first+n; i++ {
			key := i % *keys
			fmt.Fprintf(w, "GET /check HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Method: GET\r\n"+
				"X-Forwarded-Host: api.example.com\r\nX-Forwarded-Uri: /pages/a?b=c\r\n"+
				"User-Agent: benchmarks\r\nAccept: */*\r\nX-Forwarded-For: 10.%d.%d.%d\r\n\r\n",
				key>>16, key>>8&255, key&255)
		}
		failed <- w.Flush()
	}()
	for range n {
		line, err := k.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, []byte("HTTP/1.1 204 ")) {
			return fmt.Errorf("an answer is %q", line)
		}
		for len(line) > 2 {
			if line, err = k.answers.ReadSlice('\n'); err != nil {
				return err
			}
		}
	}
	return <-failed
}
