// Outbox keeps what is said before a connection is open, and sends it in order
// when it is: a command whose beginning is lost is another command.
export class Outbox<M> {
  private waiting: M[] | undefined = [];

  constructor(private readonly send: (message: M) => void) {}

  // open sends the first message, then all that was kept.
  open(first: M) {
    const kept = this.waiting ?? [];
    this.waiting = undefined;
    for (const message of [first, ...kept]) this.send(message);
  }

  push(message: M) {
    if (this.waiting) this.waiting.push(message);
    else this.send(message);
  }
}
