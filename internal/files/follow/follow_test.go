package follow_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/files/follow"
)

func TestAContentIsNewOnceTwoLooksAgree(t *testing.T) {
	f := follow.NewFollower("a")
	saw := func(digest string, believed bool, want follow.Found) {
		t.Helper()
		if got := f.Saw(digest, believed); got != want {
			t.Errorf("%s: found %d, want %d", digest, got, want)
		}
	}
	saw("a", false, follow.Same)
	saw("b", false, follow.Nothing)
	saw("c", false, follow.Nothing) // half of b was written
	saw("c", false, follow.New)
	f.Applied("c")
	saw("c", false, follow.Same)
	saw("d", true, follow.New) // asked for
}

func TestWhatIsRefusedIsNotTriedUntilItChanges(t *testing.T) {
	f := follow.NewFollower("a")
	mistake, broken := errors.New("mistake"), errors.New("broken")
	failed := func(another, want bool) {
		t.Helper()
		if another != want {
			t.Errorf("another failure: %v, want %v", another, want)
		}
	}
	saw := func(digest string, want follow.Found) {
		t.Helper()
		if got := f.Saw(digest, false); got != want {
			t.Errorf("%s: found %d, want %d", digest, got, want)
		}
	}
	saw("b", follow.Nothing)
	saw("b", follow.New)
	failed(f.Failed("b", broken), true)
	saw("b", follow.New) // the cause may have passed
	failed(f.Failed("b", broken), false)
	failed(f.Refused("b", mistake), true)
	saw("b", follow.Nothing)
	f.Forget() // as a look that a user asks for does
	saw("b", follow.New)
	failed(f.Refused("b", mistake), true)
	failed(f.Failed("", broken), true) // it could not be read: then it is news again
	saw("b", follow.Nothing)
	saw("b", follow.New)
	failed(f.Refused("b", mistake), true)
	f.Forget()
	saw("a", follow.Back)
	saw("a", follow.Same)
}

func TestALookThatIsAskedForIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		begun, reload := time.Now(), make(chan struct{})
		go func() {
			time.Sleep(12 * time.Second)
			reload <- struct{}{}
			close(reload) // asks for nothing
		}()
		var at []time.Duration
		var asked []bool
		err := follow.Run(ctx, 10*time.Second, reload, func(reload bool) {
			at, asked = append(at, time.Since(begun)/time.Second), append(asked, reload)
		})
		if err == nil || !slices.Equal(at, []time.Duration{0, 10, 12, 12, 20}) ||
			!slices.Equal(asked, []bool{false, false, true, false, false}) {
			t.Errorf("looked at %d, asked %v: %v", at, asked, err)
		}
	})
}

func TestARecordCountsAFailureThatLastsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r follow.Record
		r.Apply("a")
		time.Sleep(time.Minute)
		failed := time.Now()
		r.Fail(errors.New("one"), true)
		time.Sleep(time.Minute)
		r.Fail(errors.New("one"), false)
		if since, err := r.Failure(); err == nil || !since.Equal(failed) {
			t.Errorf("fails since %v: %v", since, err)
		}
		r.Recover()
		if _, err := r.Failure(); err != nil {
			t.Error(err)
		}
		if applied, failures := r.Loads(); applied != 1 || failures != 1 || r.Digest() != "a" ||
			!r.Applied().Equal(failed.Add(-time.Minute)) {
			t.Errorf("applied %d, failed %d, %s at %v", applied, failures, r.Digest(), r.Applied())
		}
	})
}
