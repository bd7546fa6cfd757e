package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// welcomeTimeout is how long the hub may take to open the session.
	welcomeTimeout = 30 * time.Second
	// acceptedBeats is after how many heartbeats the hub has accepted Hello: it sends none
	// before, and keeps the session.
	acceptedBeats = 2
	// partingGrace is how long the last bytes may take to leave.
	partingGrace = time.Second
)

// session serves SessionService on one connection, and guards the other
// services on it.
type session struct {
	nodev1.UnimplementedSessionServiceServer

	link     *Link
	conn     *conn
	gate     gate
	watchdog *time.Timer // ends the session unless it is reset in time

	taken atomic.Bool   // the hub has called Session
	stood atomic.Bool   // the hub was heard of after Hello
	leave chan struct{} // closed to end the stream in order
	left  chan struct{} // closed when the handler has returned
	over  chan struct{} // closed by finish
	// ending ends when the node stops, with the calls that have no end of their own.
	ending context.Context
	end    context.CancelFunc
	once   sync.Once
	cause  error // read it after over is closed
}

func newSession(l *Link, conn *conn) *session {
	s := &session{
		link: l, conn: conn,
		leave: make(chan struct{}), left: make(chan struct{}), over: make(chan struct{}),
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.watchdog = time.AfterFunc(l.handshakeTimeout(welcomeTimeout), func() {
		s.finish(errors.New("nothing was heard of the hub for too long"))
	})
	return s
}

// finish ends the session for a reason, of which the first counts.
func (s *session) finish(cause error) {
	s.once.Do(func() {
		s.gate.drain()
		s.cause = cause
		close(s.over)
	})
}

// wait returns when the session's handler has returned, if it was called.
func (s *session) wait() {
	<-s.over
	if s.taken.Load() {
		<-s.left
	}
}

// drain refuses new calls, ends those that have no end of their own, gives the others
// in progress their time, and then ends the session in order.
func (s *session) drain(timeout time.Duration) {
	drained := s.gate.drain()
	s.end()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-drained:
		case <-s.conn.closed:
		}
	}()
	drain.Config{Timeout: timeout, Running: s.gate.inside.Running, Log: s.link.cfg.Log}.Wait(over)
	close(s.leave)
	if !s.taken.Load() {
		s.finish(context.Canceled)
	}
}

// part closes the connection once what was answered has left, the session's own
// end included.
func (s *session) part(server *grpc.Server) {
	defer time.AfterFunc(partingGrace, func() { _ = s.conn.Close() }).Stop()
	go server.GracefulStop()
	<-s.conn.closed
}

// Session is the hub's first call on the connection.
func (s *session) Session(stream nodev1.SessionService_SessionServer) error {
	if s.taken.Swap(true) {
		return fault.ToGRPC(fault.New(fault.Precondition, "this link has its session already"))
	}
	defer close(s.left)
	err := s.hold(stream)
	s.finish(err)
	return fault.ToGRPC(err)
}

// hold greets the hub and keeps the session until either side ends it. It
// returns nil only for an end that this node wanted.
func (s *session) hold(stream nodev1.SessionService_SessionServer) error {
	welcome, greeted, err := s.greet(stream)
	if err != nil {
		return err
	}
	if welcome == nil {
		return nil // it was ended meanwhile
	}
	interval := time.Duration(welcome.GetHeartbeatIntervalMs()) * time.Millisecond
	s.link.cfg.Log.Info("linked to the hub",
		"epoch", welcome.GetEpoch(), "replica", welcome.GetReplica())
	s.link.cfg.OnContact()
	s.link.cfg.OnChange(true)
	defer s.link.cfg.OnChange(false)
	s.watchdog.Reset(nodelink.MissedHeartbeats * interval)

	received := make(chan error, 1)
	go func() { received <- s.receive(stream, interval) }()
	renewal := &renewal{link: s.link}
	beat := time.NewTicker(interval)
	defer beat.Stop()
	told := greeted
	for {
		why, changed := s.link.cfg.Pressure()
		if why != told {
			// Said at once, beside what the beat says.
			if err := stream.Send(heartbeat(why)); err != nil {
				return s.broken("send", err)
			}
			told = why
		}
		message := heartbeat(why)
		select {
		case <-s.leave:
			return nil
		case <-s.over:
			return s.cause
		case err := <-received:
			return err
		case <-changed:
			continue
		case <-beat.C:
			if csr := renewal.due(); csr != nil {
				message = &nodev1.SessionResponse{Message: &nodev1.SessionResponse_CertificateRequest_{
					CertificateRequest: &nodev1.SessionResponse_CertificateRequest{Csr: csr},
				}}
			}
		}
		if err := stream.Send(message); err != nil {
			return s.broken("send", err)
		}
	}
}

func heartbeat(pressure string) *nodev1.SessionResponse {
	return &nodev1.SessionResponse{Message: &nodev1.SessionResponse_Heartbeat{Heartbeat: &nodev1.Heartbeat{Pressure: pressure}}}
}

// greet receives Welcome, admits calls, and sends Hello, after which the hub
// may call. It returns Welcome, or nil if the session was ended in the
// meantime, and the pressure that Hello reported.
func (s *session) greet(stream nodev1.SessionService_SessionServer) (*nodev1.SessionRequest_Welcome, string, error) {
	message, err := stream.Recv()
	if err != nil {
		return nil, "", s.broken("wait for Welcome", err)
	}
	if goodbye := message.GetGoodbye(); goodbye != nil {
		return nil, "", errGoodbye(goodbye.GetReason())
	}
	welcome := message.GetWelcome()
	if welcome == nil {
		return nil, "", fault.New(fault.Invalid, "the hub's first message was no Welcome")
	}
	if welcome.GetHeartbeatIntervalMs() <= 0 {
		return nil, "", fault.New(fault.Invalid, "heartbeat_interval_ms: must be above 0")
	}
	if err := s.link.cfg.Identity.AdvanceEpoch(welcome.GetEpoch()); err != nil {
		return nil, "", err
	}
	hello, err := s.link.cfg.Hello(stream.Context())
	if err != nil {
		return nil, "", fmt.Errorf("describe this node: %w", err)
	}
	hello.Pressure, _ = s.link.cfg.Pressure()
	if !s.gate.unlock() {
		return nil, "", nil
	}
	if err := stream.Send(&nodev1.SessionResponse{Message: &nodev1.SessionResponse_Hello_{Hello: hello}}); err != nil {
		return nil, "", s.broken("send Hello", err)
	}
	return welcome, hello.GetPressure(), nil
}

// receive takes what the hub says until the stream ends, and returns why.
func (s *session) receive(stream nodev1.SessionService_SessionServer, interval time.Duration) error {
	beats := 0
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the hub ended the session")
		case err != nil:
			return s.broken("receive", err)
		}
		s.watchdog.Reset(nodelink.MissedHeartbeats * interval)
		s.stood.Store(true)
		s.link.cfg.OnContact()
		switch said := message.GetMessage().(type) {
		case *nodev1.SessionRequest_Goodbye_:
			return errGoodbye(said.Goodbye.GetReason())
		case *nodev1.SessionRequest_Heartbeat:
			if beats++; beats == acceptedBeats {
				s.link.cfg.OnAccepted()
			}
			if ids := said.Heartbeat.GetRecordedIds(); len(ids) > 0 {
				s.link.cfg.OnRecorded(ids)
			}
		case *nodev1.SessionRequest_IssuedCertificate_:
			s.install(said.IssuedCertificate.GetCertificatePem())
		}
	}
}

func (s *session) install(certificate string) {
	if err := s.link.cfg.Identity.Install(certificate); err != nil {
		s.link.cfg.Log.Warn("cannot use the certificate that the hub issued", "error", err)
		return
	}
	_, until := s.link.cfg.Identity.Validity()
	s.link.cfg.Log.Info("certificate renewed", "valid_until", until)
}

// broken returns why the stream failed: the connection's own reason, if the
// connection ended, is more precise than gRPC's.
func (s *session) broken(doing string, err error) error {
	select {
	case <-s.conn.closed:
		return fmt.Errorf("%s: %w", doing, s.conn.reason())
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// errGoodbye reports the reason with which the hub ended the link.
func errGoodbye(reason string) error { return fmt.Errorf("the hub ended the link: %s", reason) }

// renewal decides when to ask for a new certificate.
type renewal struct {
	link *Link
	// not asked again before then
	notBefore time.Time
}

// due returns a certificate request when it is time to send one.
func (r *renewal) due() []byte {
	now := r.link.cfg.Now()
	from, until := r.link.cfg.Identity.Validity()
	life := until.Sub(from)
	if now.Before(from.Add(time.Duration(float64(life)*r.link.cfg.RenewAfter))) || now.Before(r.notBefore) {
		return nil
	}
	// A reply usually takes moments; if the hub cannot give one, it is asked
	// again some twenty times before the certificate expires.
	r.notBefore = now.Add(life / 64)
	csr, err := r.link.cfg.Identity.Request()
	if err != nil {
		r.link.cfg.Log.Warn("cannot renew the certificate", "error", err)
		return nil
	}
	return csr
}
