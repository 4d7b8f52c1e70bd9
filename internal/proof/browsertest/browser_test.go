package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/weir-go/weir/internal/proof/testrun"
)

// patience bounds a test. It is no measure of speed: nothing waits so long unless
// something is broken.
const patience = 2 * time.Minute

// chromium is the browser that all tests share.
var chromium struct {
	once sync.Once
	ctx  context.Context
	err  error
	end  func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.end != nil {
		chromium.end()
	}
	os.RemoveAll(weir.directory)
	os.Exit(code)
}

// startBrowser starts chromium.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := testrun.Program(t, "chromium-headless-shell", "chromium") // the first has no windows to draw
	chromium.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1280, 900),
			// a request elsewhere fails, and is reported
			chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		)
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, endBrowser := chromedp.NewContext(allocator)
		chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
		chromium.end = func() { endBrowser(); endAllocator() }
	})
	if chromium.err != nil {
		t.Fatalf("chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}

// tab is a page of the browser, and what it complained about.
type tab struct {
	*testing.T
	ctx  context.Context
	host string

	mu         sync.Mutex
	complaints []string
	forgiven   string // a text that complaints may have
}

// open opens the page of s.
func open(t *testing.T, s *site) *tab {
	t.Helper()
	b := openAt(t, s.url)
	b.until("the page is live", `document.getElementById('live').textContent.startsWith('live')`)
	return b
}

// openAt opens a page.
func openAt(t *testing.T, address string) *tab {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(startBrowser(t))
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, endTime := context.WithTimeout(ctx, patience)
	t.Cleanup(endTime)
	b := &tab{T: t, ctx: ctx, host: at.Host}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	const report = `document.addEventListener('securitypolicyviolation', e => console.error('CSP: ' + ` +
		`e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));`
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: report})
	b.do("open the page", chromedp.Navigate(address))
	t.Cleanup(b.checkComplaints)
	return b
}

// command sends a command of the protocol.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) R {
	b.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.Fatalf("%s: %v", c.Method, err)
	}
	return r
}

func (b *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complain("exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		text := string(e.Type) + ":"
		for _, arg := range e.Args {
			text += " " + string(arg.Value) + arg.Description
		}
		b.complain(text)
	case *log.EventEntryAdded:
		b.complain(fmt.Sprintf("%s: %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err != nil || to.Host != b.host || to.Scheme != "http" {
			b.complain("request to " + e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.complain("dialog: " + e.Message)
	}
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forgiven == "" || !strings.Contains(text, b.forgiven) {
		b.complaints = append(b.complaints, text)
	}
}

// forgive lets complaints have a text from now on.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = text
}

func (b *tab) checkComplaints() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complaints {
		b.Errorf("the browser complains: %s", text)
	}
}

func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// until waits until an expression of JavaScript is true. It asks from outside: the policy of
// the page forbids what chromedp.Poll does inside.
func (b *tab) until(what, expression string) {
	b.Helper()
	for {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return
		}
		select {
		case <-b.ctx.Done():
			ctx, end := context.WithTimeout(context.WithoutCancel(b.ctx), 10*time.Second)
			defer end()
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
			b.Fatalf("it is not so that %s: %v\n%s", what, err, text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// value returns the value of an expression.
func value[V any](b *tab, expression string) V {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}
