"""What adapters of servers share: answers are checked, passwords are not sent in clear text."""
