package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/weir-go/weir/benchmarks/measure"
)

// Speed is compared among workers: one process per contestant. All of them are set up and alive at
// once, and one at a time takes a reading of one column when this process asks for it. Readings to
// be compared are therefore taken within a second or two of each other, whatever the machine does
// later, and no garbage collector scans the million keys of another contestant.

// readings are the readings of each column of a contestant, in order of rounds.
type readings [][]measure.Sample

// roundsPerFleet is the number of rounds of a set of workers. Then new ones are started, because
// the placement of memory makes a contestant faster or slower, and because quotas run out.
const roundsPerFleet = 3

// turns is the number of readings of each column and contestant in a round.
const turns = 2

// readWorkers takes readings by contestant, column and round. Each turn starts with another
// contestant. It calls met with the hello of each worker.
func readWorkers(
	group string, contestants []string, columns, rounds int,
	met func(name string, hello json.RawMessage) error,
) (map[string]readings, error) {
	all := make(map[string]readings)
	for _, name := range contestants {
		all[name] = make(readings, columns)
	}
	for first := 0; first < rounds; first += roundsPerFleet {
		progress("%s: setting up", group)
		workers, err := startFleet(group, contestants, met)
		for round := first; err == nil && round < min(first+roundsPerFleet, rounds); round++ {
			progress("%s: round %d of %d", group, round+1, rounds)
			err = workers.readRound(all, round, columns)
		}
		if err = errors.Join(err, workers.stop()); err != nil {
			return nil, err
		}
	}
	progress("")
	return all, nil
}

// fleet is one worker for each contestant, in order.
type fleet []*worker

// startFleet starts the workers one after the other.
func startFleet(
	group string, contestants []string, met func(string, json.RawMessage) error,
) (fleet, error) {
	var f fleet
	for _, name := range contestants {
		w, err := startWorker(group, name)
		if err != nil {
			return f, err
		}
		f = append(f, w)
		var hello json.RawMessage // the worker is set up
		if err := w.receive(&hello); err != nil {
			return f, err
		}
		if err := met(w.contestant, hello); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f fleet) readRound(readingsOf map[string]readings, round, columns int) error {
	for column := range columns {
		for turn := range turns {
			for i := range f {
				w := f[(i+round*turns+turn)%len(f)]
				s, err := w.read(column)
				if err != nil {
					return err
				}
				readingsOf[w.contestant][column] = append(readingsOf[w.contestant][column], s)
			}
		}
	}
	return nil
}

func (f fleet) stop() error {
	var errs []error
	for _, w := range f {
		errs = append(errs, w.stop())
	}
	return errors.Join(errs...)
}

// worker is a child process that takes readings when told to.
type worker struct {
	group, contestant string
	command           *exec.Cmd
	orders            io.WriteCloser
	replies           *json.Decoder
}

func startWorker(group, contestant string) (*worker, error) {
	w := &worker{group: group, contestant: contestant}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w.command = exec.Command(self, "child", group, contestant)
	w.command.Stderr = os.Stderr
	replies, err := w.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.replies = json.NewDecoder(replies)
	if w.orders, err = w.command.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.command.Start()
}

func (w *worker) read(column int) (s measure.Sample, err error) {
	if _, err := fmt.Fprintln(w.orders, column); err != nil {
		return s, fmt.Errorf("%s, %s: %w", w.group, w.contestant, err)
	}
	return s, w.receive(&s)
}

func (w *worker) receive(reply any) error {
	if err := w.replies.Decode(reply); err != nil {
		return fmt.Errorf("%s, %s: %w", w.group, w.contestant, err)
	}
	return nil
}

// stop closes the orders of the worker, waits for its end, and returns its error.
func (w *worker) stop() error {
	w.orders.Close()
	if err := w.command.Wait(); err != nil {
		return fmt.Errorf("%s, %s: %w", w.group, w.contestant, err)
	}
	return nil
}

// work runs a worker: it sends hello, and answers each number of a column with a reading, until the
// input ends.
func work[M interface{ Read() measure.Sample }](hello any, meters []M) {
	replies := json.NewEncoder(os.Stdout)
	reply := func(v any) {
		if err := replies.Encode(v); err != nil {
			panic(err)
		}
	}
	reply(hello)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var column int
		if _, err := fmt.Sscan(orders.Text(), &column); err != nil {
			panic(err)
		}
		reply(meters[column].Read())
	}
}
