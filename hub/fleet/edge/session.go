package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// partingGrace is how long a node has to read why its link ends.
	partingGrace = time.Second
	// maxSaid is how long a message of a node's may be: what runs on it, in its
	// Hello. maxAtOnce and maxRenewals are how many messages and certificate
	// requests may come at once.
	maxSaid     = 8 << 20
	maxAtOnce   = 50
	maxRenewals = 5
	// storeTimeout bounds each question to the store.
	storeTimeout = 10 * time.Second
)

// session is the stream that makes a connection a link.
type session struct {
	*Link

	stream nodev1.SessionService_SessionClient
	// watchdog ends link and stream unless it is reset in time.
	watchdog *time.Timer
	// out has the messages of other goroutines; only one may send.
	out chan *nodev1.SessionRequest
	// pressure is the node's latest report.
	pressure *pressure
	// messages and renewals are how often it may speak, and ask for certificates.
	messages, renewals *rate.Limiter
}

// errChatty ends the session of a node that speaks faster than any in order.
const errChatty = goodbye("the node says more than ten messages in a heartbeat's time")

// next returns the node's next message, if it is within bounds.
func (s *session) next() (*nodev1.SessionResponse, error) {
	message, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	if !s.messages.Allow() {
		return nil, errChatty
	}
	if err := protovalidate.Validate(message); err != nil {
		return nil, goodbye(fmt.Sprintf("the node says what no node may: %.400s", err))
	}
	return message, nil
}

// run opens the session and serves it until the link ends. It returns an error only for a
// session that never began.
func (l *Link) run() error {
	defer func() { _ = l.conn.Close() }()
	defer l.end(nil)

	// The stream outlives the link by the time that a goodbye takes.
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.ctx))
	defer cancel()
	defer context.AfterFunc(l.ctx, func() { time.AfterFunc(partingGrace, cancel) })()
	watchdog := time.AfterFunc(l.edge.cfg.HandshakeTimeout, func() {
		l.end(errSilent)
		cancel()
	})
	defer watchdog.Stop()

	stream, err := nodev1.NewSessionServiceClient(l.conn).Session(ctx, grpc.MaxCallRecvMsgSize(maxSaid))
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	s := &session{Link: l, stream: stream, watchdog: watchdog, out: make(chan *nodev1.SessionRequest)}
	s.pressure = newPressure()
	every := rate.Every(l.edge.cfg.HeartbeatInterval)
	s.messages, s.renewals = rate.NewLimiter(10*every, maxAtOnce), rate.NewLimiter(every, maxRenewals)

	err = s.open(ctx)
	if err != nil {
		s.sayGoodbye(refusal(err))
		s.drain()
		return err
	}
	return s.begin(ctx)
}

// open takes the session's epoch from the store.
func (s *session) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s.epoch, err = s.edge.cfg.Nodes.OpenSession(ctx, s.node, s.edge.cfg.Replica)
	if err != nil {
		return fmt.Errorf("open the session's row: %w", err)
	}
	return nil
}

// begin exchanges Welcome and Hello, and holds the session that they make.
func (s *session) begin(ctx context.Context) error {
	defer func() {
		// Also when the edge stops: the row must not outlive the link.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		if err := s.edge.cfg.Nodes.CloseSession(ctx, s.node.ID, s.epoch); err != nil {
			s.edge.cfg.Log.Warn("cannot record that a node disconnected", "node_id", s.node.ID, "error", err)
		}
	}()
	if err := s.greet(ctx); err != nil {
		s.sayGoodbye(refusal(err))
		s.drain()
		return err
	}
	if !s.edge.register(s.Link) {
		s.sayGoodbye("a newer session of this node has taken over")
		s.drain()
		return nil
	}
	defer s.edge.unregister(s.Link)

	log := s.edge.cfg.Log.With("node_id", s.node.ID, "epoch", s.epoch)
	log.Info("node connected", "remote", s.remote, "version", s.hello.GetVersion())
	s.hold(ctx)
	if errors.Is(s.reason(), errLeft) {
		// gRPC closes the connection once the last call in progress is answered.
		select {
		case <-s.closed:
		case <-time.After(partingGrace):
		}
	}
	log.Info("node disconnected", "reason", s.reason())
	return nil
}

// greet sends Welcome and waits for Hello.
func (s *session) greet(ctx context.Context) error {
	if err := s.stream.Send(&nodev1.SessionRequest{Message: &nodev1.SessionRequest_Welcome_{
		Welcome: &nodev1.SessionRequest_Welcome{
			Epoch: s.epoch, Replica: s.edge.cfg.Replica,
			HeartbeatIntervalMs: s.edge.cfg.HeartbeatInterval.Milliseconds(),
		},
	}}); err != nil && !errors.Is(err, io.EOF) { // the reason for EOF comes from Recv
		return fmt.Errorf("send Welcome: %w", err)
	}
	message, err := s.next()
	var why goodbye
	if errors.As(err, &why) {
		return fault.New(fault.Invalid, "%s", why)
	}
	if err != nil {
		return fmt.Errorf("wait for Hello: %w", fault.FromGRPC(err))
	}
	if s.hello = message.GetHello(); s.hello == nil {
		return fault.New(fault.Invalid, "the node's first message was no Hello")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.edge.cfg.Nodes.UpdateHello(ctx, s.node.ID, s.epoch, s.hello); err != nil {
		return fmt.Errorf("record Hello: %w", err)
	}
	s.pressure.stored = s.hello.GetPressure()
	s.pressure.say(s.hello.GetPressure())
	return nil
}

// hold keeps the session until the link ends.
func (s *session) hold(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	s.heard()
	parts.Go(func() { s.end(s.receive()) })
	parts.Go(func() { s.storePressure(ctx) })

	beat := time.NewTicker(s.edge.cfg.HeartbeatInterval)
	defer beat.Stop()
	for {
		var message *nodev1.SessionRequest
		select {
		case <-s.ctx.Done():
			var why goodbye
			if errors.As(s.reason(), &why) {
				s.sayGoodbye(string(why))
			}
			return
		case <-beat.C:
			message = &nodev1.SessionRequest{Message: &nodev1.SessionRequest_Heartbeat{
				Heartbeat: &nodev1.Heartbeat{RecordedIds: s.recorded.take()},
			}}
		case message = <-s.out:
		}
		if err := s.stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
			s.end(fmt.Errorf("send: %w", err))
		}
	}
}

// heard resets the watchdog.
func (s *session) heard() {
	s.watchdog.Reset(nodelink.MissedHeartbeats * s.edge.cfg.HeartbeatInterval)
}

// receive handles the node's messages until the stream ends, and returns why it did.
func (s *session) receive() error {
	for {
		message, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return errLeft
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		}
		s.heard()
		switch said := message.GetMessage().(type) {
		case *nodev1.SessionResponse_CertificateRequest_:
			if !s.renewals.Allow() {
				return goodbye("the node asks for certificates again and again")
			}
			s.renew(said.CertificateRequest.GetCsr())
		case *nodev1.SessionResponse_Heartbeat:
			s.pressure.say(said.Heartbeat.GetPressure())
		}
	}
}

// renew issues a new certificate for the key that the node is known by. A node
// that asks for another key loses its link.
func (s *session) renew(csr []byte) {
	certificate, err := s.issue(csr)
	if err != nil {
		s.edge.cfg.Log.Warn("refused a certificate", "node_id", s.node.ID, "error", err)
		s.end(goodbye(refusal(err)))
		return
	}
	select {
	case <-s.ctx.Done():
	case s.out <- &nodev1.SessionRequest{Message: &nodev1.SessionRequest_IssuedCertificate_{
		IssuedCertificate: &nodev1.SessionRequest_IssuedCertificate{
			CertificatePem: certificate, CaPem: s.edge.cfg.CA.PEM(),
		},
	}}:
	}
}

func (s *session) issue(csr []byte) (string, error) {
	request, err := ca.ParseRequest(csr)
	if err != nil {
		return "", err
	}
	if request.KeyFingerprint != s.node.KeyFingerprint {
		return "", fault.New(fault.Denied, "the certificate request is for another key than the node's own")
	}
	return s.edge.cfg.CA.IssueNode(s.node.ID, s.node.OrgID, request)
}

// sayGoodbye sends the node the reason why its link ends, if it still receives. No other
// goroutine may be sending.
func (s *session) sayGoodbye(reason string) {
	_ = s.stream.Send(&nodev1.SessionRequest{Message: &nodev1.SessionRequest_Goodbye_{
		Goodbye: &nodev1.SessionRequest_Goodbye{Reason: reason},
	}})
	_ = s.stream.CloseSend()
}

// drain reads until the node has ended the stream, so that it got what was
// sent before.
func (s *session) drain() {
	s.end(errors.New("the session was refused"))
	for {
		if _, err := s.stream.Recv(); err != nil {
			return
		}
	}
}

// refusal returns the part of an error that may be sent to a node.
func refusal(err error) string {
	if e := fault.As(err); e != nil && e.Kind != fault.Internal {
		return e.Error()
	}
	return "the hub cannot open a session now: see its log"
}
