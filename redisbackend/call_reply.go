package redisbackend

import (
	"errors"
	"fmt"
)

// decided is the reply of a call for one bundle.
type decided struct {
	now     int64
	rounds  int   // how many it decided
	denied  bool  // the last of them was denied, and with it all others
	numbers []any // of each
}

var errShort = errors.New("the script replied with too few numbers")

// parse checks the reply and calls each for every bundle of k, with an error if its part
// of the reply is missing or wrong.
func (k *call) parse(each func(*bundle, decided, error)) {
	reply, err := k.reply.Slice()
	var now int64
	if err == nil {
		now, err = instantOf(reply)
	}
	if err != nil {
		for _, c := range k.bundles {
			each(c, decided{}, err)
		}
		return
	}
	rest := reply[1:]
	for _, c := range k.bundles {
		d := decided{now: now}
		var err error
		if d.rounds, d.denied, d.numbers, rest, err = next(rest, c.rounds, c.one().width); err != nil {
			each(c, decided{}, err)
			continue
		}
		each(c, d, nil)
	}
}

// next splits off the part of a reply that decides one bundle, of which most requests were
// to be decided.
func next(reply []any, most, width int) (rounds int, denied bool, numbers, rest []any, err error) {
	if len(reply) == 0 {
		return 0, false, nil, nil, errShort
	}
	if err, ok := reply[0].(error); ok { // of the state of a key
		return 0, false, nil, reply[1:], err
	}
	n, ok := reply[0].(int64)
	if !ok {
		return 0, false, nil, nil, fmt.Errorf("the script replied with a %T instead of a number", reply[0])
	}
	rounds, denied = int(max(n, -n)), n < 0
	if rounds < 1 || rounds > most || !denied && rounds < most {
		return 0, false, nil, nil, fmt.Errorf("the script decided %d of %d requests", rounds, most)
	}
	if len(reply) < 1+rounds*width {
		return 0, false, nil, nil, errShort
	}
	numbers, rest = reply[1:][:rounds*width], reply[1+rounds*width:]
	return rounds, denied, numbers, rest, checkNumbers(numbers, rounds*width)
}

func instantOf(reply []any) (int64, error) {
	if len(reply) == 0 {
		return 0, errShort
	}
	now, ok := reply[0].(int64)
	if !ok {
		return 0, fmt.Errorf("the script replied with a %T instead of an instant", reply[0])
	}
	return now, nil
}

// checkNumbers returns an error unless reply has so many numbers and nothing else.
func checkNumbers(reply []any, want int) error {
	if len(reply) != want {
		return fmt.Errorf("the script replied with %d numbers instead of %d", len(reply), want)
	}
	for _, number := range reply {
		if _, ok := number.(int64); !ok {
			return fmt.Errorf("the script replied with a %T instead of a number", number)
		}
	}
	return nil
}
