package wire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

var window = limits.FixedWindow(limits.PerMinute(10))

// taken is a taking of charges, and the accounts that it is of.
func taken(
	t *testing.T, e *wire.Encoder, m wire.Mode, charges ...backends.Charge,
) (*wire.Taking, *wire.Accounts) {
	t.Helper()
	var as wire.Accounts
	if err := as.Charge(e, charges, m); err != nil {
		t.Fatal(err)
	}
	taking := new(wire.Taking)
	taking.Begin(as.All, m)
	return taking, &as
}

func TestARequestIsWrittenAsTheScriptReadsIt(t *testing.T) {
	const limit = "f10/m 10 60000000 10"
	c := func(cost int64, shadow bool, lasts time.Duration) backends.Charge {
		return backends.Charge{Scope: "s", Key: "k", Limit: window, Cost: cost, Shadow: shadow, Lasts: lasts}
	}
	for _, tt := range []struct {
		charges []backends.Charge
		peeks   bool
		units   any
		form    string
		width   int
	}{
		{[]backends.Charge{c(1, false, 0)}, false, int64(1), "take " + limit + "=1", 5},
		{[]backends.Charge{c(3, false, 0)}, true, int64(3), "peek " + limit + "=3", 5},
		{[]backends.Charge{c(1, false, 0), c(2, false, 0)}, false, int64(3), "take " + limit + "=3", 5},
		{[]backends.Charge{c(3, false, 0), c(1, true, 0)}, false, "3,1", "take " + limit + "=3,1", 5},
		{[]backends.Charge{c(1, true, 0)}, false, ",1", "take " + limit + "=,1", 5},
		{[]backends.Charge{c(3, false, time.Minute)}, false, "3@60000000", "take " + limit + "=3@60000000", 6},
	} {
		e := encoderOf("weir")
		taking, _ := taken(t, e, wire.Mode{Peeks: tt.peeks}, tt.charges...)
		args := taking.AppendArguments(nil, &e.IDs)
		if len(args) != 2 || args[0] != limit || args[1] != tt.units || taking.Form() != tt.form || taking.Width != tt.width {
			t.Errorf("%v, peeks %v: arguments %q, form %q, %d numbers, want %v", tt.charges, tt.peeks, args, taking.Form(),
				taking.Width, tt)
		}
	}
}

// A unit has an id of its own, that of no other process.
func TestUnitsThatAreHeldHaveIDsOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for range 2 {
		e := encoderOf("weir")
		for range 2 {
			held := backends.Charge{Scope: "s", Key: "k", Limit: limits.Concurrent(5), Cost: 2}
			shadow := held
			shadow.Shadow = true
			charges := []backends.Charge{held, shadow, held}
			taking, as := taken(t, e, wire.Mode{}, charges...)
			_, id, found := strings.Cut(fmt.Sprint(taking.AppendArguments(nil, &e.IDs)[1]), "4,2#")
			first := string(e.AppendID(nil, wire.Loan{}, as.TicketOf(0, charges)))
			if !found || id != first || len(id) != wire.IDLength {
				t.Errorf("the argument has the id %q, the first charge %q", id, first)
			}
			for i := range charges {
				for unit := range int64(2) {
					seen[string(e.AppendID(nil, wire.Loan{}, as.TicketOf(i, charges)+unit))] = true
				}
			}
		}
	}
	if len(seen) != 24 {
		t.Errorf("24 units have %d ids", len(seen))
	}
}

func TestAReplyIsReadWithWhatItImplies(t *testing.T) {
	const now = 1_700_000_042_500_000
	for _, tt := range []struct {
		numbers         []int64
		ok, allowed     bool
		remaining       int64
		retry, resetsIn time.Duration
	}{
		{[]int64{1, now - 2_500_000, 3, 0, 0}, true, true, 6, 0, 57500 * time.Millisecond},
		{[]int64{0, now - 2_500_000, 10, 0, 0}, true, false, 0, 57500 * time.Millisecond, 57500 * time.Millisecond},
		{[]int64{0, now - 2_500_000, 3, 0, 0}, false, false, 0, 0, 0},  // it fits, so it was allowed
		{[]int64{1, now - 2_500_000, 10, 0, 0}, false, false, 0, 0, 0}, // it does not fit
		{[]int64{2, now - 2_500_000, 3, 0, 0}, false, false, 0, 0, 0},
		{[]int64{1, now - 2_500_000, -1, 0, 0}, false, false, 0, 0, 0},
		{[]int64{1, now - 2_500_000, 1 << 53, 0, 0}, false, false, 0, 0, 0},
	} {
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: window, Cost: 1}}
		taking, as := taken(t, encoderOf("weir"), wire.Mode{}, charges...)
		ok := taking.Read(now, tt.numbers)
		if ok != tt.ok {
			t.Errorf("%v: believed %v, want %v", tt.numbers, ok, tt.ok)
		}
		if !ok {
			continue
		}
		out := make([]limits.Decision, 1)
		as.Decide(charges, taking.Results, out)
		d := out[0]
		if d.Allowed != tt.allowed || d.Remaining != tt.remaining || d.RetryAfter != tt.retry ||
			d.ResetAfter != tt.resetsIn || d.At != now {
			t.Errorf("%v: %+v, want %+v", tt.numbers, d, tt)
		}
	}
}

// A ticket says which state a taking left, and when.
func TestAnEndingIsWrittenAsTheScriptReadsIt(t *testing.T) {
	const at, serial = 1_700_000_042_500_000, 4321
	ticket := int64(serial<<46 | at&(1<<46-1))
	for _, tt := range []struct {
		of   backends.Ending
		want string
		most int64
	}{
		{backends.Ending{Taken: 5, Final: 2, Ticket: ticket}, fmt.Sprint("r 3 2 ", at&(1<<46-1), " 4321"), 3},
		{backends.Ending{Taken: 5, Final: 7, Ticket: ticket, Lasts: time.Minute}, "c 2 60000000", 2},
	} {
		tt.of.Scope, tt.of.Key, tt.of.Limit = "s", "k", window
		e, err := encoderOf("weir").Ending(&tt.of, 0)
		if args := e.Arguments(); err != nil || len(args) != 2 || args[0] != "f10/m 10 60000000 10" || args[1] != tt.want ||
			e.Name != "weir:s=k" || e.Most() != tt.most {
			t.Errorf("%+v: %q about %q, %d at most, %v; want %q", tt.of, e.Arguments(), e.Name, e.Most(), err, tt.want)
		}
	}
	c := backends.Charge{Scope: "s", Key: "k", Limit: window, Cost: 3}
	taking, _ := taken(t, encoderOf("weir"), wire.Mode{}, c)
	if !taking.Read(at, []int64{1, at, 0, 0, 0}) {
		t.Fatal("the reply is not believed")
	}
	if all := taking.GiveBacks(); len(all) != 1 || all[0].Arguments()[1] != fmt.Sprint("g 3 0 ", at) {
		t.Errorf("it is given back by %+v", all)
	}
}
