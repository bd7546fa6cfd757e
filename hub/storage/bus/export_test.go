package bus

// Break has the NATS server end as it does when it cannot go on.
func (s *Server) Break() {
	s.mu.Lock()
	nats := s.nats
	s.mu.Unlock()
	nats.Shutdown()
}
