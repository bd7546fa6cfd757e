// setup says where a sender's own pages take the URL and the secret of a webhook: a step a
// line. A sender without steps takes them as its documentation says.
export const setup: Partial<Record<string, readonly string[]>> = {
  github: [
    "Open the repository, or the organisation, and then Settings → Webhooks → Add webhook.",
    "Payload URL: the URL above. Content type: application/json. Secret: the secret above.",
    "Choose the events, and save. GitHub sends a ping at once: it appears under Deliveries.",
  ],
  gitlab: [
    "Open the project, or the group, and then Settings → Webhooks → Add new webhook.",
    "URL: the URL above. Secret token: the secret above.",
    "Choose the triggers, add the webhook, and send a test from its menu.",
  ],
  slack: [
    "Open your app at api.slack.com/apps, and then Event Subscriptions.",
    "The secret of this trigger is the app's Signing Secret, under Basic Information.",
    "Request URL: the URL above. Slack verifies it at once.",
    "Subscribe to the bot events, and install the app again.",
  ],
  alertmanager: [
    "Add a receiver to alertmanager.yml: webhook_configs with the URL above.",
    "Add the secret above to that URL, as ?token=SECRET.",
    "Route alerts to the receiver, and reload Alertmanager.",
  ],
  jira: [
    "Open Settings → System → WebHooks → Create a WebHook.",
    "URL: the URL above. Secret: the secret above.",
    "Choose the events, and create it.",
  ],
  stripe: [
    "Open the Stripe Dashboard, and then Developers → Webhooks → Add destination.",
    "Endpoint URL: the URL above. Choose the events.",
    "The secret of this trigger is the destination's signing secret (whsec_…).",
  ],
  standard: ["Give the sender the URL above and the secret above, with its prefix whsec_.", "It signs each message with the headers webhook-id, webhook-timestamp and webhook-signature."],
  json: ["Send a POST with JSON to the URL above.", "Add the secret as the header X-Deckhand-Token, or as ?token= to the URL."],
  token: ["Send a POST to the URL above.", "Add the secret as the header X-Deckhand-Token, or as ?token= to the URL."],
};
