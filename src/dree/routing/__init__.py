"""From a day of orders and a solver to a plan: routes in the customer's own names, places and units."""

from dree.routing.plan import Plan, Share, Visit

__all__ = ["Plan", "Share", "Visit"]
