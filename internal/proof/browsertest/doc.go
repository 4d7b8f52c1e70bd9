// Package browsertest tests the operator's page and the playground in a browser, Debian's chromium.
// It is a module of its own, so that programs that use weir do not inherit the code that drives the
// browser.
package browsertest
