// Package browsertest tests the operator's page and the playground in a browser, Debian's
// chromium. It is a module of its own, so that nobody who uses weir inherits what drives
// the browser.
package browsertest
