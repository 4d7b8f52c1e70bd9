// Package simulate replays access logs through the rules of a policy. The engine of weir
// decides, by a clock that follows the log.
//
// Where the stamps of a log are whole seconds, nobody knows when within its second a
// request arrived. So everything is decided twice: once with all requests of a second at its
// start, and once with the requests spread evenly over it. Every number of a [Report] is a
// [Range] from the one to the other.
//
// A replay cannot know what clients would have done after a denial. Each request of the log
// is demand, whatever became of the one before.
package simulate
