package shed

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A browser opens six connections to a server. A service with hardly anything to do must answer all of them, also if
// what they ask for belongs to the last of three classes.
func TestAnIdleServiceAdmitsAPageOfItsLeastImportantClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MustNew(Options[*http.Request]{Classes: []Class{{Name: "critical"}, {Name: "writes"}, {Name: "reads"}}})
		handler := Handler(s, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) }))
		get := func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != http.StatusOK {
				t.Errorf("status %d with a limit of %d", w.Code, s.State().Limit)
			}
		}
		for range 100 { // one after the other
			get()
			time.Sleep(300 * time.Millisecond)
		}
		for range 5 {
			var page sync.WaitGroup
			for range 6 {
				page.Go(get)
			}
			page.Wait()
			time.Sleep(10 * time.Second)
		}
	})
}
