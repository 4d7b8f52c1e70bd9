package client

// Buckets returns how many buckets and names of routes t keeps.
func (t *Transport) Buckets() (buckets, names int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.table.buckets), len(t.table.names)
}
