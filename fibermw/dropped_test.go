package fibermw

import (
	"runtime"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// After a timeout fasthttp drops a request, and closes none of its values.
func TestARequestThatIsDroppedEndsOnce(t *testing.T) {
	ended := make(chan int, 2)
	func() {
		answer := &pendingAnswer{ctx: new(fasthttp.RequestCtx)}
		answer.add(func(status int, _ int64) { ended <- status })
	}()
	for deadline := time.Now().Add(time.Minute); len(ended) == 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatal("the request has not ended")
		}
	}
	if status := <-ended; status != 0 {
		t.Errorf("status %d, want that it is unknown", status)
	}

	ctx := new(fasthttp.RequestCtx)
	answer := &pendingAnswer{ctx: ctx}
	ctx.SetUserValue(answerKey{}, answer)
	answer.add(func(status int, _ int64) { ended <- status })
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.Request.Reset()
	if status := <-ended; status != fasthttp.StatusAccepted || len(ended) > 0 {
		t.Errorf("status %d, and %d more ends", status, len(ended))
	}
}
