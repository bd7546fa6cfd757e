package gitpush

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// signatureStarts begin the signature of a certificate.
var signatureStarts = []string{
	"-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----",
	"-----BEGIN SIGNED MESSAGE-----", "-----BEGIN SSH SIGNATURE-----",
}

// readCertificate reads a signed push after the line push-cert: header lines, an
// empty line, the updates and the signature, then push-cert-end and a flush packet.
// Servers split the text in different ways, so each packet must be one line, and only
// one line may look like the start of a signature.
func (p *Push) readCertificate(r *headReader, limits Limits) error {
	c := &Certificate{}
	refs, header, part := map[string]bool{}, map[string]bool{}, "header"
	for {
		packet, err := r.next()
		if err != nil {
			return err
		}
		if packet == nil {
			return malformed("the push certificate has no end")
		}
		line, whole := strings.CutSuffix(string(packet), "\n")
		if !whole || strings.ContainsAny(line, "\x00\n") || !utf8.ValidString(line) {
			return malformed("a packet of the push certificate is not one line of UTF-8")
		}
		if line == "push-cert-end" {
			break
		}
		c.Text = append(append(c.Text, line...), '\n')
		starts := slices.ContainsFunc(signatureStarts, func(s string) bool { return strings.HasPrefix(line, s) })
		switch part {
		case "header":
			if line == "" {
				part = "updates"
			} else if err := c.addHeader(line, header); err != nil {
				return err
			}
		case "updates":
			if starts {
				part = "signature"
			} else if err := p.addUpdate(line, refs, limits); err != nil {
				return err
			}
		default:
			if starts {
				return malformed("the push certificate has two signatures")
			}
		}
	}
	if part != "signature" || len(p.Updates) == 0 {
		return malformed("the push certificate has no updates or no signature")
	}
	if !slices.Equal(c.Options, nil) && !p.Has("push-options") {
		return malformed("the push certificate has push options, and the push has none")
	}
	switch packet, err := r.next(); {
	case err != nil:
		return err
	case packet != nil:
		return malformed("a line follows the push certificate")
	}
	p.Certificate = c
	return nil
}

func (c *Certificate) addHeader(line string, seen map[string]bool) error {
	name, value, ok := strings.Cut(line, " ")
	if !ok || seen[name] && name != "push-option" {
		return malformed("the push certificate has the header line %.40q", line)
	}
	if !seen["certificate"] && name != "certificate" {
		return malformed("the push certificate does not begin with its version")
	}
	seen[name] = true
	switch name {
	case "certificate":
		if value != "version 0.1" {
			return malformed("the push certificate has the %.40q, which is not known here", value)
		}
	case "pusher":
		c.Pusher = value
	case "pushee":
		c.Pushee = value
	case "nonce":
		c.Nonce = value
	case "push-option":
		c.Options = append(c.Options, value)
	default:
		return malformed("the push certificate has the header line %.40q", line)
	}
	return nil
}
