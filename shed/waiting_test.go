package shed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/shed"
)

var halves = []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}}

// A class that comes back over a second has more places with time alone, and nobody may
// begin or end meanwhile.
func TestAWaiterIsNotShedWhileThereIsRoom(t *testing.T) {
	options := shed.Options[int]{Limit: 10, Classes: halves, MaxWait: 600 * time.Millisecond, MaxWaiting: 10}
	queued(t, options, func(t *testing.T, l *line, running []*shed.Permit) {
		running = append(running, l.admitted(3, 0)...)
		for _, name := range []string{"a", "b", "c"} {
			l.wait(t.Context(), name, 1)
		}
		end(running...)
		l.did("c admitted 0s") // the others may begin 200 and 400 ms later
		time.Sleep(time.Minute)
		l.waiting(0)
		if class := l.State().Classes[1]; class.Admitted != 3 || class.Shed != 0 {
			t.Errorf("%+v", class)
		}
	})
}

// A request whose client has already left must not push out another that waits.
func TestARequestWhoseClientHasLeftTakesNoPlaceInTheQueue(t *testing.T) {
	queued(t, shed.Options[int]{MaxWaiting: 1}, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "stays", 0)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		l.wait(ctx, "gone", 0)
		l.did("gone shed 0s")
		l.waiting(1)
		end(running[0])
		l.did("stays admitted 0s")
	})
}

// Otherwise the first requests of the least important class take what a more important one
// leaves free for those that come back.
func TestAClassIsClosedWithThoseAboveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := byIndex(t, shed.Options[int]{
			Limit: 10, Classes: []shed.Class{{Name: "critical"}, {Name: "writes", Share: 50}, {Name: "reads", Share: 50}},
		})
		critical := s.admitted(5, 0)
		s.shed(1)
		end(critical...)
		s.admitted(1, 2)
		s.shed(2)
		s.admitted(1, 1)
	})
}

func TestWaitersOfAClassThatIsLeftOutKeepTheirTurn(t *testing.T) {
	options := shed.Options[int]{Classes: halves, MaxWaiting: 10, MaxWait: time.Minute}
	queued(t, options, func(t *testing.T, l *line, running []*shed.Permit) {
		l.wait(t.Context(), "first", 0)
		time.Sleep(time.Second)
		l.wait(t.Context(), "second", 1)
		time.Sleep(time.Second)
		l.wait(t.Context(), "third", 0)
		time.Sleep(time.Second)
		l.wait(t.Context(), "fourth", 1)
		options.Classes, options.Limit = []shed.Class{{Name: "other"}}, 2
		replace(t, l.story, options)
		end(running[0])
		l.did("fourth admitted 0s")
		end(running[1])
		l.did("third admitted 1s")
		options.MaxWaiting = 2
		replace(t, l.story, options)
		l.wait(t.Context(), "fifth", 0)
		l.did("first shed 3s")
	})
}
