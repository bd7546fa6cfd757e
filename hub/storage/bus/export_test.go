package bus

// Break makes the NATS server end as it does after a fatal error.
func (s *Server) Break() {
	s.mu.Lock()
	nats := s.nats
	s.mu.Unlock()
	nats.Shutdown()
}
